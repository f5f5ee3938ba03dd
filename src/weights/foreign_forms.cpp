#include "weights/foreign_forms.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "manifest/key_map.hpp"
#include "manifest/spelling.hpp"

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>

namespace sluice {
namespace {

struct Suffix {
  std::string_view text;
  std::string_view form;
};

constexpr std::string_view kGptq = "GPTQ or AWQ (qweight, qzeros)";
constexpr std::string_view kBitsAndBytes = "bitsandbytes";
constexpr std::string_view kOrder = "groups in another order (g_idx)";
constexpr std::string_view kSparse = "sparse weights";

constexpr std::array kSuffixes{
    Suffix{".qweight", kGptq},
    Suffix{".qzeros", kGptq},
    Suffix{".g_idx", kOrder},
    Suffix{".weight_g_idx", kOrder},
    Suffix{".weight_zero_point", "zero points"},
    Suffix{".absmax", kBitsAndBytes},
    Suffix{".quant_map", kBitsAndBytes},
    Suffix{".SCB", kBitsAndBytes},
    Suffix{".bitmask", kSparse},
    Suffix{".compressed", kSparse},
};
/// Endings of the names of tensors that change activations. Of parts that no model here has they are as
/// foreign as the parts.
constexpr std::array kOfActivations{
    Suffix{"pre_quant_scale", "activations that are multiplied before they are quantised (pre_quant_scale)"},
    Suffix{"_amax", "the state of quantisers (amax)"},
    Suffix{"_zero_point", "zero points"},
};

std::string_view form_of(const CheckpointEntry& entry, const std::unordered_set<std::string_view>& names) {
  const std::string_view name = entry.name;
  for (const Suffix& suffix : kSuffixes)
    if (name.ends_with(suffix.text)) return suffix.form;
  if (name.find(".quant_state.bitsandbytes__") != std::string_view::npos) return kBitsAndBytes;
  if (entry.dtype == DType::kFloat8E5M2) return "float8_e5m2";
  for (const Suffix& suffix : kOfActivations)
    if (name.ends_with(suffix.text) && !ignored_key(plain_name(name))) return suffix.form;
  const bool has_scale = names.contains(std::string(name) + "_scale");
  if (entry.dtype == DType::kInt8 && name.ends_with("weight") && has_scale) return "int8";
  return "";
}

}  // namespace

void refuse_foreign_forms(const CheckpointIndex& index) {
  struct Found {
    int tensors = 0;
    const CheckpointEntry* first = nullptr;
  };
  std::unordered_set<std::string_view> names;
  for (const CheckpointEntry& entry : index.entries) names.insert(entry.name);
  std::map<std::string_view, Found> forms;
  for (const CheckpointEntry& entry : index.entries) {
    const std::string_view form = form_of(entry, names);
    if (form.empty()) continue;
    Found& found = forms[form];
    ++found.tensors;
    if (found.first == nullptr) found.first = &entry;
  }
  if (forms.empty()) return;
  std::string text;
  for (const auto& [form, found] : forms)
    text += fmt::format("\n  - {}: {}, first {} ({})", form, counted(found.tensors, "tensor"),
                        printable(found.first->name),
                        index.files[static_cast<std::size_t>(found.first->file)].name);
  fail({ExitCode::kBadData, "weights.format"},
       "{}: weights are stored in a form that is not supported:{}\n  Use the checkpoint that they were "
       "made from, as published in bfloat16, FP8 (float8_e4m3fn with scales), INT4 (compressed-tensors, "
       "symmetric), MXFP4 or NVFP4, or convert them to bfloat16.",
       index.directory, text);
}

}  // namespace sluice
