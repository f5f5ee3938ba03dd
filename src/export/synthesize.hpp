// Writes a random checkpoint in published layout, with a buffer of a few MiB.
#pragma once

#include "manifest/key_map.hpp"
#include "model/quantization_config.hpp"
#include "weights/companion_files.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

namespace sluice {

struct SynthesizeOptions {
  /// Standard deviation of random weights: initializer_range of config.json.
  float standard_deviation = 0.02f;
  std::uint64_t seed = 0;
  /// Most bytes of tensors in one file; a larger tensor gets a file of its own.
  std::int64_t max_shard_bytes = 5'000'000'000;
  ExpertLayout experts = ExpertLayout::kPerExpert;
  /// Value of quantization_config, by which weights become codes and scales, see stored_form().
  std::optional<QuantizationConfig> quantization{};
  /// Whether files have only headers and holes, so that every weight reads as zero.
  bool sparse = false;
  std::vector<CompanionFile> companions{};  ///< files that are copied: config.json, tokenizer
  /// Function that gets the progress in bytes; may be empty.
  std::function<void(std::int64_t done_bytes, std::int64_t total_bytes)> progress{};
};

struct SynthesizeReport {
  int files = 0;
  std::int64_t tensors = 0;
  std::int64_t bytes = 0;  ///< bytes of all tensors
};

/// Writes `out`/model.safetensors, or model-0000i-of-0000N.safetensors with their index, in the manifest's
/// element types, except for codes and scales, and with the values of initial_values(). `out` appears
/// complete or not at all; Error(kUsage) if it exists and is not empty.
SynthesizeReport synthesize_checkpoint(const KeyMap& keys, const std::filesystem::path& out,
                                       const SynthesizeOptions& options);

}  // namespace sluice
