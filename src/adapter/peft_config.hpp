// Reads adapter_config.json as PEFT (0.18 and later) writes it for LoRA.
#pragma once

#include "model/model_directory.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace sluice {

struct PeftConfig {
  /// Targets: a list of names, or one regular expression for whole names.
  using Names = std::variant<std::vector<std::string>, std::string>;
  /// Settings by patterns: regular expressions for the ends of names, with a value that holds if the first
  /// match is its.
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
  /// Whether PEFT read fused experts as [expert, in, out] whatever the model says, as 0.18 and 0.19 do, and
  /// not as [expert, out, in].
  bool reads_experts_by_position = false;
};

/// Directory of the adapter that a path means: itself, or the one folder in it that holds an adapter, which PEFT
/// names like the adapter unless it is called "default". The path as it is if there is no such folder;
/// Error(kBadData) if there are several, with their names.
[[nodiscard]] std::filesystem::path find_peft_adapter(const std::filesystem::path& directory);

/// Reads the config of an adapter's directory. Error(kBadData) if it is no such file, and for every setting
/// that changes the adapter's meaning and is not supported, by its name: DoRA, modules trained as a whole,
/// biases, and methods that change the base weights.
[[nodiscard]] PeftConfig read_peft_config(const std::filesystem::path& directory);
[[nodiscard]] PeftConfig parse_peft_config(std::string_view json, const std::string& name);

}  // namespace sluice
