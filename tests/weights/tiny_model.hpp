// Models and directories for tests of the load, small enough to compare byte by byte.
#pragma once

#include "manifest/manifest.hpp"
#include "shard/arena.hpp"
#include "support/error_of.hpp"
#include "support/temporary_directory.hpp"
#include "weights/checkpoint_index.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {

/// Dimensions of a Qwen3 model; layers listed in `dense_layers` have an MLP instead of experts.
struct TinyModel {
  std::int64_t hidden = 64;
  std::int64_t layers = 3;
  std::int64_t heads = 4;
  std::int64_t key_heads = 2;
  std::int64_t head_width = 32;
  std::int64_t experts = 8;  ///< 0 for a dense model
  std::int64_t expert_width = 48;
  std::int64_t dense_width = 160;
  std::int64_t vocabulary = 512;
  std::vector<std::int64_t> dense_layers{};
  bool tied = false;
  bool transposed = false;  ///< checkpoints have the experts' matrices transposed
  std::int64_t joined_groups =
      0;  ///< groups of heads by which checkpoints join q, k and v; 0: they are apart
  bool whole_tensors =
      false;  ///< every rank holds whole a correction bias of each router and a parameter of attention
  DType dtype = DType::kBFloat16;
};
[[nodiscard]] ParameterManifest manifest_of(const TinyModel& model);

/// A tensor of a file to be written.
struct FileTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  DType dtype = DType::kBFloat16;
  std::string bytes{};  ///< zeros if empty
};
void write_safetensors(const std::filesystem::path& path, const std::vector<FileTensor>& tensors);
void write_file(const std::filesystem::path& path, std::string_view bytes);

/// Where the tensors of a checkpoint belong, worked out element by element from the placements alone: the
/// whole buffer of every unit, in `arena` elements, without tensors that every rank holds whole. `bytes_of` gives an entry's bytes.
[[nodiscard]] std::vector<std::vector<std::byte>> place_directly(
    const CheckpointIndex& index, const ParameterManifest& manifest, const UnitLayouts& layouts, DType arena,
    const std::function<std::vector<std::byte>(const CheckpointEntry&)>& bytes_of);

/// A rank's arena cut out of whole units.
[[nodiscard]] std::vector<std::byte> arena_of(const std::vector<std::vector<std::byte>>& units,
                                              const ShardPlan& plan, int rank, DType arena);

}  // namespace sluice::test
