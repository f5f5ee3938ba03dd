#include "adapter/peft_config.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "io/file.hpp"
#include "io/json_object.hpp"
#include "io/path.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <system_error>

namespace sluice {
namespace {

namespace fs = std::filesystem;

// JSON that keeps the file's order, because the first matching pattern counts.
using json = nlohmann::ordered_json;

/// Keys without effect on numbers: where the adapter comes from, and how it is run. What ensure_weight_tying
/// adds to an adapter has tensors in its file.
constexpr std::array<std::string_view, 14> kIgnored{"auto_mapping",   "base_model_name_or_path",
                                                    "corda_config",   "ensure_weight_tying",
                                                    "eva_config",     "inference_mode",
                                                    "loftq_config",   "lora_ga_config",
                                                    "megatron_core",  "peft_version",
                                                    "revision",       "qalora_group_size",
                                                    "runtime_config", "task_type"};
/// Keys that are read.
constexpr std::array<std::string_view, 13> kRead{"peft_type",           "r",
                                                 "lora_alpha",          "use_rslora",
                                                 "lora_dropout",        "target_modules",
                                                 "exclude_modules",     "rank_pattern",
                                                 "layers_to_transform", "layers_pattern",
                                                 "target_parameters",   "init_lora_weights",
                                                 "alpha_pattern"};

/// Usual names of unsupported settings, for keys that do not tell.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kExplained{{
    {"use_dora", "DoRA, whose magnitudes are no part of LoRA"},
    {"modules_to_save", "modules that were trained as a whole"},
    {"bias", "biases that were trained with it"},
    {"lora_bias", "biases of lora_B"},
    {"fan_in_fan_out", "weights that lie transposed"},
    {"trainable_token_indices", "rows of the embedding that were trained"},
    {"layer_replication", "layers that are there several times"},
}};
/// Values of init_lora_weights that change the base weights when the adapter is made, so that the saved
/// adapter is not a change of the model.
constexpr std::array<std::string_view, 5> kBaseChanging{"pissa", "olora", "corda", "loftq", "lora_ga"};

bool holds(const fs::path& directory, std::string_view file) {
  std::error_code error;
  return fs::exists(directory / file, error);
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& name)
      : name_(name), document_(parse_json_object<json>(text, name + ": ")) {}

  [[noreturn]] void refuse(std::string_view key, std::string_view expected) const {
    const json* value = find(key);
    fail({ExitCode::kBadData, "adapter.unreadable"}, "{}: {}: found {}, expected {}", name_, printable(key),
         value == nullptr ? "nothing" : shown_json(*value), expected);
  }

  /// Value at a key; null if it is missing or JSON's null.
  [[nodiscard]] const json* find(std::string_view key) const {
    const auto found = document_.find(std::string(key));
    return found == document_.end() || found->is_null() ? nullptr : &*found;
  }
  [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t otherwise) const {
    const json* value = find(key);
    return value == nullptr ? otherwise : rank(key, *value);
  }
  [[nodiscard]] double number(std::string_view key, double otherwise) const {
    const json* value = find(key);
    return value == nullptr ? otherwise : finite(key, *value);
  }
  [[nodiscard]] bool boolean(std::string_view key) const {
    const json* value = find(key);
    if (value != nullptr && !value->is_boolean()) refuse(key, "true or false");
    return value != nullptr && value->get<bool>();
  }
  [[nodiscard]] std::string text(std::string_view key) const {
    const json* value = find(key);
    if (value == nullptr) return "";
    if (!value->is_string()) refuse(key, "a text");
    return value->get<std::string>();
  }
  [[nodiscard]] std::vector<std::string> texts(std::string_view key) const {
    const json* value = find(key);
    if (value == nullptr) return {};
    if (!value->is_array() || !std::ranges::all_of(*value, &json::is_string)) refuse(key, "a list of texts");
    return value->get<std::vector<std::string>>();
  }
  [[nodiscard]] PeftConfig::Names names(std::string_view key) const {
    const json* value = find(key);
    if (value != nullptr && value->is_string()) return text(key);
    return texts(key);
  }
  [[nodiscard]] std::optional<std::vector<std::int64_t>> layers(std::string_view key) const {
    const json* value = find(key);
    if (value == nullptr || (value->is_array() && value->empty())) return std::nullopt;
    const auto is_layer = [](const json& one) { return one.is_number_integer(); };
    if (is_layer(*value)) return std::vector{value->get<std::int64_t>()};
    if (!value->is_array() || !std::ranges::all_of(*value, is_layer)) refuse(key, "numbers of layers");
    return value->get<std::vector<std::int64_t>>();
  }
  [[nodiscard]] PeftConfig::Patterns<std::int64_t> ranks(std::string_view key) const {
    return patterns<std::int64_t>(key, [&](const json& value) { return rank(key, value); });
  }
  [[nodiscard]] PeftConfig::Patterns<double> numbers(std::string_view key) const {
    return patterns<double>(key, [&](const json& value) { return finite(key, value); });
  }

  /// Calls visit(key) for every setting with an effect: not null, false, or an empty text, list or object.
  template <class Visit>
  void for_each_setting(Visit visit) const {
    for (const auto& item : document_.items()) {
      const json& value = item.value();
      const bool is_empty = value.is_null() || (value.is_structured() && value.empty()) ||
                            (value.is_boolean() && !value.get<bool>()) ||
                            (value.is_string() && value.get_ref<const std::string&>().empty());
      if (!is_empty) visit(std::string_view(item.key()));
    }
  }

 private:
  [[nodiscard]] std::int64_t rank(std::string_view key, const json& value) const {
    constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
    const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() >= 1 &&
                      value.get<std::uint64_t>() <= static_cast<std::uint64_t>(kLargest);
    if (!fits) refuse(key, fmt::format("a rank from 1 to {}", kLargest));
    return value.get<std::int64_t>();
  }
  [[nodiscard]] double finite(std::string_view key, const json& value) const {
    if (!value.is_number() || !std::isfinite(value.get<double>())) refuse(key, "a number");
    return value.get<double>();
  }
  template <class T, class Read>
  [[nodiscard]] PeftConfig::Patterns<T> patterns(std::string_view key, Read read) const {
    PeftConfig::Patterns<T> out;
    const json* value = find(key);
    if (value == nullptr) return out;
    if (!value->is_object()) refuse(key, "patterns of names with a number each");
    for (const auto& [pattern, one] : value->items()) out.emplace_back(pattern, read(one));
    return out;
  }

  const std::string& name_;
  json document_;
};

void refuse_other_methods(const Reader& reader, const std::string& name) {
  const std::string type = reader.text("peft_type");
  if (type != "LORA") reader.refuse("peft_type", "\"LORA\"");
  reader.for_each_setting([&](std::string_view key) {
    if (std::ranges::find(kIgnored, key) != kIgnored.end() || std::ranges::find(kRead, key) != kRead.end())
      return;
    if (key == "bias" && reader.text(key) == "none") return;
    const auto explained =
        std::ranges::find(kExplained, key, &std::pair<std::string_view, std::string_view>::first);
    if (explained != kExplained.end())
      fail({ExitCode::kBadData, "adapter.unreadable"}, "{}: {} is set: {}; only plain LoRA is read", name,
           key, explained->second);
    fail({ExitCode::kBadData, "adapter.unreadable"},
         "{}: {} is set, which is not known here and may change what the adapter means; only plain LoRA is "
         "read",
         name, printable(key));
  });
}

void refuse_changed_bases(const Reader& reader) {
  const auto* init = reader.find("init_lora_weights");
  if (init == nullptr || !init->is_string()) return;
  const std::string how = reader.text("init_lora_weights");
  const auto begins = [&](std::string_view method) { return how.starts_with(method); };
  if (std::ranges::any_of(kBaseChanging, begins))
    reader.refuse(
        "init_lora_weights",
        "an adapter of the model as it is: this method changes the base weights. PEFT converts such an "
        "adapter (save_pretrained with path_initial_model_for_weight_conversion)");
}

void refuse_other_layers(const Reader& reader) {
  const auto* pattern = reader.find("layers_pattern");
  if (pattern == nullptr) return;
  const std::vector<std::string> names =
      pattern->is_string() ? std::vector{reader.text("layers_pattern")} : reader.texts("layers_pattern");
  if (names.empty() || names == std::vector<std::string>{""} || names == std::vector<std::string>{"layers"})
    return;
  reader.refuse("layers_pattern", "\"layers\", as these models call them");
}

/// Whether a version is before 0.20: "0.18.1", "0.20.1.dev0". A missing version is older than
/// target_parameters.
bool is_before_0_20(const std::string& version) {
  const std::size_t dot = version.find('.');
  if (dot == std::string::npos || version.substr(0, dot) != "0") return false;
  const std::string minor = version.substr(dot + 1, version.find('.', dot + 1) - dot - 1);
  return minor.size() < 2 || minor < "20";
}

}  // namespace

PeftConfig parse_peft_config(std::string_view json_text, const std::string& name) {
  const Reader reader(json_text, name);
  refuse_other_methods(reader, name);
  refuse_changed_bases(reader);
  refuse_other_layers(reader);
  PeftConfig config;
  config.source = name;
  config.rank = reader.integer("r", config.rank);
  config.alpha = reader.number("lora_alpha", config.alpha);
  config.rslora = reader.boolean("use_rslora");
  config.dropout = reader.number("lora_dropout", 0);
  if (!(config.dropout >= 0 && config.dropout < 1))
    reader.refuse("lora_dropout", "a share from 0 to below 1");
  config.target_modules = reader.names("target_modules");
  config.exclude_modules = reader.names("exclude_modules");
  config.target_parameters = reader.texts("target_parameters");
  config.layers_to_transform = reader.layers("layers_to_transform");
  config.rank_pattern = reader.ranks("rank_pattern");
  config.alpha_pattern = reader.numbers("alpha_pattern");
  config.reads_experts_by_position = is_before_0_20(reader.text("peft_version"));
  return config;
}

fs::path find_peft_adapter(const fs::path& directory) {
  if (holds(directory, kPeftConfigFile)) return directory;
  std::vector<std::string> names;
  for (const fs::path& entry : entries_in(directory))
    if (holds(entry, kPeftConfigFile)) names.push_back(entry.filename().string());
  if (names.empty()) return directory;
  std::ranges::sort(names);
  if (names.size() > 1)
    fail({ExitCode::kBadData, "adapter.unreadable"},
         "{}: found several adapters in it, expected one; name its folder: {}", directory.string(),
         printable(join_some(names)));
  return directory / names.front();
}

PeftConfig read_peft_config(const fs::path& directory) {
  const fs::path path = directory / kPeftConfigFile;
  if (!holds(directory, kPeftConfigFile)) {
    if (holds(directory, "config.json"))
      fail({ExitCode::kBadData, "adapter.unreadable"}, "{} holds a model, expected an adapter, with {}",
           directory.string(), kPeftConfigFile);
    require_model_directory(directory);  // tells of what is neither
  }
  return parse_peft_config(read_text_file(path, 16 * kMiB), path.string());
}

}  // namespace sluice
