// Verification of loaded shards: digests of arenas and files are compared tensor by tensor.
#pragma once

#include "base/bytes.hpp"
#include "base/digest.hpp"
#include "shard/arena.hpp"
#include "shard/rank_sets.hpp"
#include "weights/checkpoint_index.hpp"
#include "weights/checkpoint_match.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

namespace sluice {

/// Options of a verification of loaded shards.
struct VerifyOptions {
  /// Ranks of each set that read the files again, each a range of tensors; empty: all ranks. The same on every rank.
  std::vector<int> readers{};
  /// Whether the readers of the first set alone read, and tell the other sets what the files hold.
  bool passes_on = false;
  /// Bytes read between two meetings, so that ranks with less to read wait no longer than this takes.
  std::int64_t round_bytes = kGiB;
  /// Function called with the bytes that this rank has read, and will read in all; may be empty.
  std::function<void(std::int64_t done_bytes, std::int64_t total_bytes)> progress{};
};

/// Result of a verification, the same on every rank.
struct VerifyReport {
  std::int64_t tensors = 0;     ///< number of tensors compared, counted in the per-expert layout
  std::int64_t read_bytes = 0;  ///< bytes that the readers of one set have read
  std::int64_t non_finite = 0;  ///< number of elements in the files that are infinite or NaN
  /// Sum of PublishedDigest::identity() over the tensors: equal for every rank count and layout, and for
  /// every training type that holds what the files hold.
  Digest content;
};

/// Collective over all ranks of `sets`. Compares the arenas of each set with the files that `match` took them from,
/// every byte of which one rank of the set reads, or of the first set if it passes on what it reads. Tensors are
/// compared in their file's element type: what a float32 arena holds is rounded to it, and must not lose anything by
/// that. Where the arena's type is the coarser one (bfloat16 for a float32 or float16 file), the file's elements are
/// converted to it instead. NaNs that a conversion makes alike count as equal. Error(kInternal) on every rank if
/// something differs, naming the tensors, their files and the ranks that own them; of tensors that every rank holds
/// whole, in float32, each rank's copy is compared. Holds some 100 bytes a tensor, at most 8 KiB a rank for the ends
/// of shards, and 5 MiB of staging. `manifest`, `index`, `match` and `weights.plan()` are the same on every rank.
[[nodiscard]] VerifyReport verify_shards(const RankSets& sets, const ShardArena& weights,
                                         const ParameterManifest& manifest, const CheckpointIndex& index,
                                         const CheckpointMatch& match, const std::filesystem::path& directory,
                                         const VerifyOptions& options = {});

}  // namespace sluice
