// adapter_config.json as PEFT (0.18 and later) writes it for LoRA.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace sluice {

inline constexpr std::string_view kPeftConfigFile = "adapter_config.json";
inline constexpr std::string_view kPeftWeightsFile = "adapter_model.safetensors";

struct PeftConfig {
  /// Names, or one regular expression over whole names.
  using Names = std::variant<std::vector<std::string>, std::string>;
  /// Regular expressions over the ends of names, and what holds where the first of them matches.
  template <class T>
  using Patterns = std::vector<std::pair<std::string, T>>;

  std::string source;  ///< name of the file in messages
  std::int64_t rank = 8;
  double alpha = 8;
  bool rslora = false;
  double dropout = 0;
  Names target_modules;
  Names exclude_modules;
  std::vector<std::string> target_parameters;
  std::optional<std::vector<std::int64_t>> layers_to_transform;
  Patterns<std::int64_t> rank_pattern;
  Patterns<double> alpha_pattern;
  /// Fused experts are [expert, in, out] to PEFT 0.18 and 0.19, whatever the model says, and [expert, out,
  /// in] to later versions.
  bool reads_experts_by_position = false;
};

/// Error(kBadData) for what is no such file, and for every setting that changes what the adapter means and
/// that is not known here, by name: DoRA, modules that were trained as a whole, biases, and methods that
/// change the base weights.
[[nodiscard]] PeftConfig read_peft_config(const std::filesystem::path& directory);
[[nodiscard]] PeftConfig parse_peft_config(std::string_view json, const std::string& name);

}  // namespace sluice
