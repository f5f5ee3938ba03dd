// Announcement in config.json of weights that are stored as codes and scales.
#pragma once

#include "encoding/encoding.hpp"
#include "model/config_reader.hpp"
#include "model/plain_modules.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// Whose names the tensors of 4-bit floating-point weights X have.
enum class Float4Names : std::uint8_t {
  kBlocks,    ///< gpt-oss: X_blocks, X_scales
  kPacked,    ///< compressed-tensors: X_packed, X_scale, X_global_scale
  kModelOpt,  ///< X, X_scale, X_scale_2
};

/// Announcement of quantised weights in config.json.
struct QuantizationConfig {
  std::string name;          ///< name of the JSON object in messages: "…/config.json: quantization_config"
  std::vector<Codes> codes;  ///< codes that config.json announces, each once
  std::optional<std::array<std::int64_t, 2>> block;  ///< rows and columns of a block of FP8 weights
  std::optional<std::int64_t> group;  ///< neighbours of a row of 4-bit weights that share a scale
  Float4Names float4_names = Float4Names::kBlocks;
  bool has_nvfp4 = false;  ///< whether 4-bit floating-point weights have float8_e4m3fn scales: NVFP4
  PlainModules plain{};    ///< modules that keep plain weights, whatever the codes are for

  [[nodiscard]] bool announces(Codes form) const;
  /// Neighbours of a row of 4-bit weights that share a scale: of integers as config.json says, or as is usual.
  [[nodiscard]] std::int64_t group_of(Codes form) const;
  /// The encoding that config.json lets expect of `matrices` matrices of rows x columns elements, with scales
  /// of the usual type, and without the place of the scales.
  [[nodiscard]] Encoding encoding_of(Codes form, std::int64_t matrices, std::int64_t rows,
                                     std::int64_t columns) const;
};

/// The object quantization_config of a config.json; nothing without it. Error(kBadData) for a form that is
/// not read: by its key, with what to use instead.
[[nodiscard]] std::optional<QuantizationConfig> read_quantization(const ConfigReader& config);

/// Reads it from a directory's config.json, where it may also be in text_config; nothing if there is no
/// config.json, or none that is a JSON object.
[[nodiscard]] std::optional<QuantizationConfig> read_quantization(const std::filesystem::path& directory);

/// A config.json's text without its quantization_config, for weights that are written out as plain numbers;
/// nothing if it has none, or is no JSON object.
[[nodiscard]] std::optional<std::string> without_quantization(const std::string& config_json);

}  // namespace sluice
