#include "model/quantization_methods.hpp"

#include "base/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {
namespace {

constexpr std::string_view kInstead =
    "weights stored by another method can't be trained here; take the checkpoint that they were made from, "
    "as it is published in bfloat16, FP8, INT4, MXFP4 or NVFP4, or turn them back into bfloat16 and leave this key "
    "out";

constexpr std::array<std::int64_t, 2> kUsualBlock{128, 128};

/// A form of weights that has a name of its own.
struct NamedForm {
  std::string_view name;
  Codes codes;
  std::optional<std::array<std::int64_t, 2>> block{};
  std::optional<std::int64_t> group{};
  bool is_nvfp4 = false;

  [[nodiscard]] WeightForm form() const { return {codes, block, group, is_nvfp4, {}}; }
};

/// ModelOpt's quant_algo. The weights of W4A16, W4A8 and the like differ from others in nothing.
constexpr std::array kAlgorithms{NamedForm{"FP8", Codes::kFloat8E4M3},
                                 NamedForm{"NVFP4", Codes::kFloat4E2M1, {}, {}, true},
                                 NamedForm{"MXFP8", Codes::kFloat8E4M3, kMxfp8Block},
                                 NamedForm{"W4A16_NVFP4", Codes::kFloat4E2M1, {}, {}, true},
                                 NamedForm{"W4A8_NVFP4_FP8", Codes::kFloat4E2M1, {}, {}, true},
                                 NamedForm{"FP8_PB_WO", Codes::kFloat8E4M3, kUsualBlock},
                                 NamedForm{"FP8_PB_REAL", Codes::kFloat8E4M3, kUsualBlock},
                                 NamedForm{"FP8_PER_CHANNEL_PER_TOKEN", Codes::kFloat8E4M3},
                                 NamedForm{"MXFP4", Codes::kFloat4E2M1},
                                 NamedForm{"W4A8_MXFP4_FP8", Codes::kFloat4E2M1}};
/// Values of quant_algo of which files hold nothing else.
constexpr std::size_t kStrictAlgorithms = 3;

/// Groups of compressed-tensors that are a list of targets under the name of a scheme.
constexpr std::array kSchemes{NamedForm{"FP8", Codes::kFloat8E4M3},
                              NamedForm{"FP8_DYNAMIC", Codes::kFloat8E4M3},
                              NamedForm{"FP8_BLOCK", Codes::kFloat8E4M3, kUsualBlock},
                              NamedForm{"MXFP8", Codes::kFloat8E4M3, kMxfp8Block},
                              NamedForm{"MXFP8A16", Codes::kFloat8E4M3, kMxfp8Block},
                              NamedForm{"NVFP4", Codes::kFloat4E2M1, {}, {}, true},
                              NamedForm{"NVFP4A16", Codes::kFloat4E2M1, {}, {}, true},
                              NamedForm{"MXFP4", Codes::kFloat4E2M1},
                              NamedForm{"MXFP4A16", Codes::kFloat4E2M1},
                              NamedForm{"MXFP4XFP8", Codes::kFloat4E2M1},
                              NamedForm{"W4A16", Codes::kInt4, {}, 128},
                              NamedForm{"W4AFP8", Codes::kInt4, {}, 128}};

template <class Forms>
const NamedForm* find_form(const Forms& forms, std::string_view name) {
  const auto found = std::ranges::find(forms, name, &NamedForm::name);
  return found == forms.end() ? nullptr : &*found;
}

std::string lowered(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string raised(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

/// The two numbers of a text "128x128"; nothing for another text.
std::optional<std::vector<std::int64_t>> block_of_text(const std::string& text) {
  const std::size_t cross = text.find('x');
  if (cross == std::string::npos) return std::nullopt;
  const auto rows = whole_number(text.substr(0, cross)), columns = whole_number(text.substr(cross + 1));
  if (!rows || !columns) return std::nullopt;
  return std::vector{*rows, *columns};
}

std::optional<std::array<std::int64_t, 2>> read_block(const ConfigReader& config, const char* key) {
  constexpr std::int64_t kLargest = 1 << 20;
  if (!config.has(key)) return std::nullopt;
  const std::vector<std::int64_t> block =
      config.holds_text(key) ? block_of_text(config.text({key})).value_or(std::vector<std::int64_t>{})
                             : config.integers({key});
  if (block.size() != 2 || std::ranges::min(block) < 1 || std::ranges::max(block) > kLargest)
    config.refuse(key, fmt::format("two integers from 1 to {}, the rows and columns of a block", kLargest));
  return std::array{block[0], block[1]};
}

/// Reads the list of plain modules at transformers' or vLLM's key for it.
void read_plain_modules(const ConfigReader& config, const char* key, ModulePatterns::Rule rule,
                        QuantizationConfig& out) {
  if (config.has(key)) out.plain = {config.texts({key}), rule, fmt::format("{}: {}", config.name(), key)};
}

void refuse_if_set(const ConfigReader& config, const char* key, std::string_view why) {
  if (config.boolean({key}, false)) config.refuse(key, fmt::format("false, as {}: {}", why, kInstead));
}

/// Reads `quant_method` "fp8", as DeepSeek publishes it and transformers writes it.
void read_float8(const ConfigReader& config, std::optional<std::array<std::int64_t, 2>> usual_block,
                 QuantizationConfig& out) {
  if (config.text({"fmt"}, "e4m3") != "e4m3")
    config.refuse("fmt", fmt::format("'e4m3', the only form of FP8 weights that is read: {}", kInstead));
  if (config.text({"expert_dtype"}, "fp8") != "fp8")
    config.refuse("expert_dtype",
                  fmt::format("'fp8', as experts in another form are not read: {}", kInstead));
  const auto block = read_block(config, "weight_block_size");
  out.add({.codes = Codes::kFloat8E4M3, .block = block ? block : usual_block});
  for (const char* key : {"ignored_layers", "modules_to_not_convert"})
    read_plain_modules(config, key, ModulePatterns::Rule::kParts, out);
}

/// Checks the order in which the groups of INT4 weights were made. Weights in another order than their
/// columns' have a tensor g_idx, whatever this key says, and files with one are refused.
void read_order(const ConfigReader& weights) {
  constexpr const char* kKey = "actorder";
  if (!weights.has(kKey)) return;
  if (!weights.holds_text(kKey)) return static_cast<void>(weights.boolean({kKey}, false));
  const std::string order = lowered(weights.text({kKey}));
  for (const std::string_view known : {"weight", "static", "group", "dynamic"})
    if (order == known) return;
  weights.refuse(kKey, "'weight', 'static', 'group', 'dynamic', true, false or null");
}

/// Reads QuantizationArgs of compressed-tensors, of weights.
void read_weights(const ConfigReader& weights, ModulePatterns targets, QuantizationConfig& out) {
  const std::string type = lowered(weights.text({"type"}, "int"));
  const std::int64_t bits = weights.integer({"num_bits"}, 8);
  const bool is_float = type == "float";
  if ((bits != 4 && !(is_float && bits == 8)) || (!is_float && type != "int"))
    weights.refuse("num_bits", fmt::format("4, or 8 with type 'float', not with '{}': {}", type, kInstead));
  if (!weights.boolean({"symmetric"}, true))
    weights.refuse("symmetric", fmt::format("true, as zero points are not read: {}", kInstead));
  read_order(weights);
  WeightForm form{.codes = bits == 8 ? Codes::kFloat8E4M3 : is_float ? Codes::kFloat4E2M1 : Codes::kInt4};
  form.targets = std::move(targets);
  if (weights.has("group_size") && weights.integer({"group_size"}, {}, -1) > 0)
    form.group = weights.integer({"group_size"});
  if (bits == 8) {
    form.block = read_block(weights, "block_structure");
    if (!form.block && form.group) form.block = std::array<std::int64_t, 2>{1, *form.group};
    form.group = std::nullopt;
  } else if (is_float) {
    out.float4_names = Float4Names::kPacked;
    form.is_nvfp4 = lowered(weights.text({"strategy"}, "tensor_group")) == "tensor_group";
  }
  out.add(std::move(form));
}

void refuse_activations(const ConfigReader& group) {
  for (const char* key : {"input_activations", "output_activations"})
    if (const auto activations = group.object({key}))
      if (lowered(activations->text({"type"}, "int")) == "int")
        activations->refuse(
            "type",
            fmt::format("'float' or no {}, as int8 activations are not computed with: {}", key, kInstead));
}

/// Checks the format in which a group, or all of them, is stored.
void require_known_format(const ConfigReader& config, std::initializer_list<std::string_view> also) {
  if (!config.has("format")) return;
  const std::string format = config.text({"format"});
  constexpr std::array<std::string_view, 6> kKnown{"float-quantized",      "naive-quantized",
                                                   "pack-quantized",       "nvfp4-pack-quantized",
                                                   "mxfp4-pack-quantized", "mxfp8-quantized"};
  if (std::ranges::find(kKnown, format) != kKnown.end() || std::ranges::find(also, format) != also.end())
    return;
  config.refuse("format",
                fmt::format("'float-quantized' (FP8), 'pack-quantized' (INT4), 'nvfp4-pack-quantized', "
                            "'mxfp4-pack-quantized' or 'mxfp8-quantized': {}",
                            kInstead));
}

ModulePatterns read_targets(const ConfigReader& group) {
  constexpr const char* kKey = "targets";
  std::vector<std::string> targets =
      group.holds_text(kKey) ? std::vector{group.text({kKey})} : group.texts({kKey});
  return {std::move(targets), ModulePatterns::Rule::kNames, fmt::format("{}: {}", group.name(), kKey)};
}

/// Reads one of config_groups: an object, or a list of targets under the name of a scheme.
void read_group(const ConfigReader& groups, const std::string& name, QuantizationConfig& out) {
  const char* const key = name.c_str();
  if (!groups.has(key)) return;
  if (!groups.holds_list(key)) {
    const ConfigReader group = *groups.object({key});
    refuse_activations(group);
    require_known_format(group, {});
    if (const auto weights = group.object({"weights"})) read_weights(*weights, read_targets(group), out);
    return;
  }
  const std::string scheme = raised(name);
  if (scheme == "UNQUANTIZED") return;
  const NamedForm* const known = find_form(kSchemes, scheme);
  if (known == nullptr)
    groups.refuse(key, fmt::format("a scheme of FP8, INT4, MXFP4, MXFP8 or NVFP4 weights: {}", kInstead));
  WeightForm form = known->form();
  form.targets = {groups.texts({key}), ModulePatterns::Rule::kNames,
                  fmt::format("{}: {}", groups.name(), name)};
  if (form.codes == Codes::kFloat4E2M1) out.float4_names = Float4Names::kPacked;
  out.add(std::move(form));
}

/// Refuses experts that are replaced by constants. Pruned ones are left out of the files, which tell how many
/// there are.
void refuse_expert_sparsity(const ConfigReader& config) {
  const auto sparsity = config.object({"moe_sparsity_config"});
  if (sparsity && sparsity->text({"method"}, "prune") != "prune")
    sparsity->refuse("method",
                     fmt::format("'prune', as experts without weights are not computed: {}", kInstead));
}

/// Reads `quant_method` "compressed-tensors". Early versions have the same object inside another one.
void read_compressed(const ConfigReader& config, QuantizationConfig& out) {
  if (const auto sparsity = config.object({"sparsity_config"}); sparsity && !sparsity->is_empty())
    if (sparsity->text({"format"}, "dense") != "dense")
      sparsity->refuse("format", fmt::format("'dense', as sparse weights are not read: {}", kInstead));
  refuse_expert_sparsity(config);
  if (const auto nested = config.object({"quantization_config"}); nested && !nested->is_empty())
    return read_quantization_method(*nested, out);
  if (const auto groups = config.object({"config_groups"}))
    for (const std::string& name : groups->keys()) read_group(*groups, name, out);
  if (out.forms.empty())
    require_known_format(config, {"mixed-precision", "dense"});
  else
    require_known_format(config, {"mixed-precision"});
  read_plain_modules(config, "ignore", ModulePatterns::Rule::kNames, out);
}

/// Reads the quant_algo of a whole model, or of one layer.
void read_algorithm(const ConfigReader& config, ModulePatterns targets, QuantizationConfig& out) {
  for (const char* key : {"pre_quant_scale", "has_zero_point"})
    refuse_if_set(config, key,
                  "neither activations that are multiplied first nor zero points are computed with");
  if (!config.has("quant_algo")) return;
  const std::string algorithm = raised(config.text({"quant_algo"}));
  if (algorithm == "MIXED_PRECISION") {
    out.is_open = true;
    return;
  }
  const NamedForm* const known = find_form(kAlgorithms, algorithm);
  if (known == nullptr) {
    std::vector<std::string_view> names;
    for (const NamedForm& form : kAlgorithms) names.push_back(form.name);
    config.refuse("quant_algo",
                  fmt::format("'{}' or 'MIXED_PRECISION': {}", fmt::join(names, "', '"), kInstead));
  }
  if (known - kAlgorithms.data() >= static_cast<std::ptrdiff_t>(kStrictAlgorithms)) out.is_open = true;
  WeightForm form = known->form();
  form.targets = std::move(targets);
  if (form.is_nvfp4 && config.has("group_size")) form.group = config.integer({"group_size"});
  out.add(std::move(form));
}

/// Reads an object with the keys of ModelOpt.
void read_modelopt_keys(const ConfigReader& config, QuantizationConfig& out) {
  read_algorithm(config, {}, out);
  for (const char* key : {"ignore", "exclude_modules"})
    read_plain_modules(config, key, ModulePatterns::Rule::kGlobs, out);
  if (const auto groups = config.object({"config_groups"}))
    for (const ConfigReader& group : groups->objects()) {
      refuse_activations(group);
      refuse_if_set(group, "pre_quant_scale", "activations that are multiplied first are not computed with");
    }
  if (const auto layers = config.object({"quantized_layers"}))
    for (const std::string& name : layers->keys())
      if (layers->has(name.c_str()))
        read_algorithm(*layers->object({name.c_str()}),
                       {{name, name + ".*"}, ModulePatterns::Rule::kGlobs, layers->name()}, out);
}

/// Reads `quant_method` "modelopt", whose keys may be in an object of their own as in hf_quant_config.json.
void read_modelopt(const ConfigReader& config, QuantizationConfig& out) {
  out.float4_names = Float4Names::kModelOpt;
  read_modelopt_keys(config, out);
  if (const auto nested = config.object({"quantization"})) read_modelopt_keys(*nested, out);
}

/// Refuses transforms of activations, queries, keys and outputs, which are applied while the model runs.
/// Those of weights are in the weights as they are stored.
void refuse_transforms(const ConfigReader& config) {
  const auto transforms = config.object({"transform_config"});
  if (!transforms) return;
  for (const std::string& key : transforms->keys())
    if (key != "config_groups" && transforms->has(key.c_str()))
      transforms->refuse(key.c_str(), "config_groups alone");
  const auto groups = transforms->object({"config_groups"});
  if (!groups) return;
  for (const std::string& name : groups->keys()) {
    const auto scheme = groups->object({name.c_str()});
    if (!scheme) continue;
    for (const ConfigReader& applied : scheme->object_list("apply")) {
      const std::string location = lowered(applied.text({"location"}, ""));
      if (location != "weight_input" && location != "weight_output")
        applied.refuse("location",
                       fmt::format("'weight_input' or 'weight_output', as transforms while the model "
                                   "runs are not computed: {}",
                                   kInstead));
    }
  }
}

bool has_any(const ConfigReader& config, std::initializer_list<const char*> keys) {
  return std::ranges::any_of(keys, [&](const char* key) { return config.has(key); });
}

/// The value of quant_method, or what the other keys say about it; "": nothing.
std::string method_of(const ConfigReader& config) {
  if (config.has("quant_method")) return config.text({"quant_method"});
  if (has_any(config, {"quant_algo", "quantization", "quantized_layers"})) return "modelopt";
  if (has_any(config, {"config_groups", "quantization_config", "format"})) return "compressed-tensors";
  if (has_any(config, {"weight_block_size", "fmt", "activation_scheme"})) return "fp8";
  return "";
}

}  // namespace

void read_quantization_method(const ConfigReader& config, QuantizationConfig& out) {
  for (const char* key : {"load_in_4bit", "load_in_8bit"})
    refuse_if_set(config, key, "bitsandbytes' weights are not read");
  refuse_transforms(config);
  const std::string method = method_of(config);
  if (method == "fp8" || method == "mxfp8") {
    out.has_inverse_scales = method == "mxfp8";
    read_float8(config, out.has_inverse_scales ? std::optional(kMxfp8Block) : std::nullopt, out);
  } else if (method == "compressed-tensors") {
    read_compressed(config, out);
  } else if (method.starts_with("modelopt")) {
    read_modelopt(config, out);
  } else if (method == "mxfp4") {
    out.add({.codes = Codes::kFloat4E2M1});
    read_plain_modules(config, "modules_to_not_convert", ModulePatterns::Rule::kParts, out);
  } else if (!method.empty() || config.has("quant_method")) {
    config.refuse(
        "quant_method",
        fmt::format("'fp8', 'mxfp8', 'compressed-tensors', 'modelopt', 'mxfp4' or no quantization_config: {}",
                    kInstead));
  }
  if (!config.has("quant_method") || method.starts_with("modelopt_") || out.forms.empty()) out.is_open = true;
}

}  // namespace sluice
