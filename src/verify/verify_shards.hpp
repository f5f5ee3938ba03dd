// Do the arenas hold what the files hold? Both sides are digested and compared, tensor by tensor.
#pragma once

#include "base/bytes.hpp"
#include "base/digest.hpp"
#include "comm/communicator.hpp"
#include "shard/arena.hpp"
#include "weights/checkpoint_index.hpp"
#include "weights/checkpoint_match.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

namespace sluice {

/// Options of a verification of loaded shards.
struct VerifyOptions {
  /// Ranks that read the files again, each its own range of tensors; empty for all. The same on every rank.
  std::vector<int> readers{};
  /// Ranks with less to read wait for the others no longer than this takes, however much there is in all.
  std::int64_t round_bytes = kGiB;
  /// Called with the bytes that this rank has read, of those it will read; may be empty.
  std::function<void(std::int64_t done_bytes, std::int64_t total_bytes)> progress{};
};

/// Result of the comparison, the same on every rank.
struct VerifyReport {
  std::int64_t tensors = 0;  ///< tensors that were compared, counted as the per-expert layout publishes them
  std::int64_t read_bytes = 0;  ///< bytes that all ranks together have read
  std::int64_t non_finite = 0;  ///< elements of the files that are infinite or NaN
  /// Sum of PublishedDigest::identity() over the tensors: equal for every rank count and layout, and for
  /// every training type that holds what the files hold.
  Digest content;
};

/// Collective over `comm`. Compares the arenas of all ranks with the files that `match` took them from, every
/// byte of which one rank reads. Tensors are compared in their file's element type: what a float32 arena
/// holds is rounded to it, and must not lose anything by that. Where the arena's type is the coarser one
/// (bfloat16 for a float32 or float16 file), the file's elements are converted to it instead. NaNs that a
/// conversion makes alike count as equal. Error(kInternal) on every rank if something differs, naming the
/// tensors, their files and the ranks that own them. Holds some 100 bytes a tensor, at most 8 KiB a rank for
/// the ends of shards, and 5 MiB of staging. `manifest`, `index`, `match` and `weights.plan()` are the
/// same on every rank.
[[nodiscard]] VerifyReport verify_shards(Communicator& comm, const ShardArena& weights,
                                         const ParameterManifest& manifest, const CheckpointIndex& index,
                                         const CheckpointMatch& match, const std::filesystem::path& directory,
                                         const VerifyOptions& options = {});

}  // namespace sluice
