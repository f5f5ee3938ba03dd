// A directory that PEFT saved a LoRA adapter to, held against a model: which weights it changes and how, and
// where each element of the file belongs. Headers only, no values.
//
// In the file a weight's lora_A is [rank, in] and its lora_B [out, rank]. Fused experts have one pair for
// all: A [experts x rank, in] expert after expert, B [out, rank x experts] with experts fastest. PEFT before
// 0.20 took them for [expert, in, out], so that A and B have changed places; transformers 4 had a pair for
// each projection of each expert.
#pragma once

#include "adapter/peft_config.hpp"
#include "adapter/peft_tensor.hpp"
#include "manifest/adapter.hpp"
#include "manifest/manifest.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// A file with values, with the length that it had when its header was read.
struct AdapterFile {
  std::filesystem::path path;
  std::int64_t bytes = 0;
};

/// Function that fills `out` with a file's bytes from byte `offset` on. Error(kBadData) or Error(kIo) if the
/// bytes are wrong, or cannot be read.
using ReadAdapterFile = std::function<void(std::int64_t offset, std::span<std::byte> out)>;

/// Style of an adapter's directory: differences that directories of the same adapter may have.
struct PeftStyle {
  bool rslora = false;  ///< whether the scale is alpha / sqrt(rank)
  /// Prefix of the text model's names: "model.language_model." inside a wrapper.
  std::string tree = "model.";
};

/// An adapter: a file in a directory that PEFT saved, or the files of all ranks in a checkpoint
/// (checkpoint/saved_weights.hpp).
struct PeftAdapter {
  std::vector<AdapterFile> files;
  /// Function that opens a file whose bytes must be verified, as those of a checkpoint against its digests;
  /// null: files are read without verification.
  std::function<ReadAdapterFile(const AdapterFile& file)> open{};
  AdapterDescription adapters;
  PeftStyle style;
  /// Tensors in the order of the files; elements that no file has are zero.
  std::vector<PeftTensor> tensors;
};

/// `manifest` may have adapters already. Error(kBadData) with everything that is wrong with the files: as
/// read_peft_config(), tensors missing or unexpected by name, weights the model does not have, shapes of
/// another model or rank, and what has no adapter here (embeddings, convolutions, a vision tower).
[[nodiscard]] PeftAdapter read_peft_adapter(const std::filesystem::path& directory,
                                            const ParameterManifest& manifest);

}  // namespace sluice
