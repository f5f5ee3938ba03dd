#include "model/quantization_config.hpp"

#include "base/error.hpp"
#include "io/file.hpp"
#include "io/json_object.hpp"
#include "manifest/spelling.hpp"
#include "model/quantization_methods.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// Keys of the announcement; the first that holds one counts.
constexpr std::array kKeys{"quantization_config", "compression_config"};
constexpr const char* kTextConfig = "text_config";
constexpr std::int64_t kLargestConfig = 100'000'000;

/// A text as a JSON object; nothing if it is none.
std::optional<nlohmann::ordered_json> parsed(const std::string& text) {
  try {
    return parse_json_object<nlohmann::ordered_json>(text, "");
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Removes the announcement from an object and from the objects in it; whether there was one.
bool remove_announcements(nlohmann::ordered_json& object) {
  bool is_changed = false;
  for (const char* key : kKeys) is_changed |= object.erase(key) > 0;
  for (nlohmann::ordered_json& value : object)
    if (value.is_object()) is_changed |= remove_announcements(value);
  return is_changed;
}

/// How closely the targets of a form name a module: the lowest is the closest.
std::pair<int, std::string> closeness(const WeightForm& form, std::string_view module) {
  enum { kByName, kByExpression, kEveryModule, kOtherModules };
  const std::vector<std::string>& patterns = form.targets.patterns;
  auto match = form.targets.match(module);
  if (!match) match = form.targets.match(plain_name(module));
  if (match) return {ModulePatterns::is_expression(*match) ? kByExpression : kByName, *match};
  const bool takes_all = patterns.empty() || std::ranges::find(patterns, "Linear") != patterns.end();
  return {takes_all ? kEveryModule : kOtherModules, ""};
}

}  // namespace

std::int64_t WeightForm::group_size() const {
  constexpr std::int64_t kUsual = 32;
  if (codes == Codes::kFloat4E2M1) return is_nvfp4 ? kNvfp4Group : kMxfp4Group;
  return group.value_or(kUsual);
}

bool WeightForm::takes_rows_of(std::int64_t columns) const {
  if (codes == Codes::kFloat8E4M3) return !is_mxfp8() || columns % kMxfp8Block[1] == 0;
  return columns % group_size() == 0;
}

Encoding WeightForm::encoding_of(std::int64_t matrices, std::int64_t rows, std::int64_t columns) const {
  Encoding encoding{.codes = codes, .rows = rows, .columns = columns, .block_rows = 1};
  if (codes == Codes::kFloat8E4M3) {
    encoding.scale_type = is_mxfp8() ? DType::kUInt8 : DType::kFloat32;
    encoding.block_rows = block ? block->front() : 1;
    encoding.block_columns = block ? block->back() : columns;
  } else {
    const DType float4_scales = is_nvfp4 ? DType::kFloat8E4M3 : DType::kUInt8;
    encoding.scale_type = codes == Codes::kInt4 ? DType::kBFloat16 : float4_scales;
    encoding.block_columns = group_size();
  }
  encoding.scale_count = matrices * encoding.grid_rows() * encoding.grid_columns();
  return encoding;
}

bool QuantizationConfig::announces(Codes codes) const {
  return std::ranges::find(forms, codes, &WeightForm::codes) != forms.end();
}

void QuantizationConfig::add(WeightForm form) {
  const auto same = std::ranges::find_if(forms, [&](const WeightForm& other) {
    return other.codes == form.codes && other.block == form.block && other.group == form.group &&
           other.is_nvfp4 == form.is_nvfp4 && other.targets.patterns.empty() == form.targets.patterns.empty();
  });
  if (same == forms.end()) return forms.push_back(std::move(form));
  std::ranges::move(form.targets.patterns, std::back_inserter(same->targets.patterns));
}

std::vector<WeightForm> QuantizationConfig::forms_for(std::string_view module) const {
  if (forms.size() == 1) return forms;
  std::vector<WeightForm> sorted(forms.rbegin(), forms.rend());
  std::ranges::stable_sort(sorted, {}, [&](const WeightForm& form) { return closeness(form, module); });
  return sorted;
}

std::optional<QuantizationConfig> read_quantization(const ConfigReader& config) {
  std::optional<ConfigReader> found;
  for (const char* key : kKeys)
    if (config.has(key) && !found) {
      found = config.object({key});
      if (found->is_empty()) found.reset();
    }
  if (!found) return std::nullopt;
  QuantizationConfig out;
  out.name = found->name();
  read_quantization_method(*found, out);
  return out;
}

std::optional<QuantizationConfig> read_quantization(const fs::path& directory) {
  std::error_code error;
  const fs::path path = directory / "config.json";
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  const std::string text = read_text_file(path, kLargestConfig);
  if (!parsed(text)) return std::nullopt;
  const ConfigReader config = ConfigReader::parse(text, path.string());
  if (auto found = read_quantization(config)) return found;
  if (!config.has(kTextConfig)) return std::nullopt;
  const auto inner = config.object({kTextConfig});
  return inner ? read_quantization(*inner) : std::nullopt;
}

std::optional<std::string> without_quantization(const std::string& config_json) {
  std::optional<nlohmann::ordered_json> config = parsed(config_json);
  if (!config || !remove_announcements(*config)) return std::nullopt;
  return json_file_text(*std::move(config));
}

}  // namespace sluice
