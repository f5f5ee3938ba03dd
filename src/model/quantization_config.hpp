// Announcement of quantised weights in config.json: that files hold codes and scales.
#pragma once

#include "encoding/encoding.hpp"
#include "model/config_reader.hpp"
#include "model/module_patterns.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// Naming scheme of the tensors of 4-bit floating-point weights X.
enum class Float4Names : std::uint8_t {
  kBlocks,    ///< gpt-oss: X_blocks and X_scales
  kPacked,    ///< compressed-tensors: X_packed, X_scale, X_global_scale
  kModelOpt,  ///< ModelOpt: X, X_scale and X_scale_2
};

/// Rows and columns of a block of MXFP8 weights, whose scales are exponents.
inline constexpr std::array<std::int64_t, 2> kMxfp8Block{1, 32};

/// Form in which the weights of some modules are stored.
struct WeightForm {
  Codes codes = Codes::kFloat8E4M3;
  std::optional<std::array<std::int64_t, 2>> block{};  ///< rows and columns of a block of FP8 weights
  std::optional<std::int64_t> group{};  ///< consecutive elements of a row of 4-bit weights that share a scale
  bool is_nvfp4 = false;  ///< whether 4-bit floating-point weights have float8_e4m3fn scales, which is NVFP4
  ModulePatterns
      targets{};  ///< modules that the form is announced for; "Linear" and no pattern: every module

  [[nodiscard]] bool is_mxfp8() const { return block == kMxfp8Block; }
  /// Whether the form takes rows of so many elements: groups of 4-bit and of MXFP8 weights are not cut.
  [[nodiscard]] bool takes_rows_of(std::int64_t columns) const;
  /// Number of consecutive elements of a row of 4-bit weights that share a scale: as config.json says, or the
  /// usual number.
  [[nodiscard]] std::int64_t group_size() const;
  /// Encoding of `matrices` matrices of rows x columns elements, with scales of the usual type, and without the
  /// place of the scales.
  [[nodiscard]] Encoding encoding_of(std::int64_t matrices, std::int64_t rows, std::int64_t columns) const;
};

/// Announcement of quantised weights in config.json.
struct QuantizationConfig {
  std::string name;  ///< name of the JSON object in messages: "…/config.json: quantization_config"
  std::vector<WeightForm> forms;  ///< forms that config.json announces, each once, in its order
  bool is_open = false;  ///< whether files may hold weights in forms that config.json does not announce
  Float4Names float4_names = Float4Names::kBlocks;
  bool has_inverse_scales = false;  ///< whether scales of MXFP8 weights X are X_scale_inv, not X_scale
  ModulePatterns plain{};           ///< modules with plain weights, whatever config.json announces for others

  [[nodiscard]] bool announces(Codes codes) const;
  /// Adds a form, or its targets to those of an equal one.
  void add(WeightForm form);
  /// The forms, the one that is announced for a module first, as compressed-tensors chooses: targets that are
  /// the module's name, then regular expressions for it, then all linear modules, then other modules. Of equal
  /// targets the last one counts. Error(kBadData) for an invalid regular expression.
  [[nodiscard]] std::vector<WeightForm> forms_for(std::string_view module) const;
};

/// Reads the object quantization_config of a config.json, or without it compression_config, as early versions
/// of compressed-tensors call it; nothing if there is none, or if it is empty. Error(kBadData) for a format that
/// is not supported, with its key and with what to use instead.
[[nodiscard]] std::optional<QuantizationConfig> read_quantization(const ConfigReader& config);

/// Reads the object quantization_config of a directory's config.json, where it may also be in text_config;
/// nothing if there is no config.json that is a JSON object.
[[nodiscard]] std::optional<QuantizationConfig> read_quantization(const std::filesystem::path& directory);

/// A config.json's text without quantization_config and compression_config, in whatever object these are, for
/// weights that are written as plain numbers; nothing if it has none, or is not a JSON object.
[[nodiscard]] std::optional<std::string> without_quantization(const std::string& config_json);

}  // namespace sluice
