// Digests of tensors whose shards lie in the arenas of all ranks, to be compared with those of the files.
#pragma once

#include "base/digest.hpp"
#include "base/dtype.hpp"
#include "base/range.hpp"
#include "comm/communicator.hpp"
#include "manifest/manifest.hpp"
#include "shard/arena.hpp"

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

namespace sluice {

/// A part of a tensor in the arenas that is compared with an entry of an index.
struct PlacedPart {
  int entry = 0;
  int tensor = 0;
  Range elements;                 ///< elements of the tensor in the part
  DType dtype = DType::kFloat32;  ///< element type in which both sides are compared
  // Digests of both sides: this rank's share at first, then the sum over ranks.
  Digest in_arena;
  Digest in_file;
  std::int64_t altered = 0;  ///< number of elements of a float32 arena that the file's type cannot hold
};

/// Collective over `comm`. Adds this rank's share to `in_arena` and `altered` of the parts it owns a piece
/// of. Digests are made in the parts' types: the arena's own, or a coarser one if the arena is float32. After
/// each unit the ranks exchange what lies in digest blocks that a cut between shards divides, at most two
/// blocks a rank. `parts` are those of the same tensors, in the same order, on every rank.
void digest_arenas(Communicator& comm, const ShardArena& weights, std::span<PlacedPart> parts);

/// Digests this rank's copies of parts that every rank holds whole, as digest_arenas() does those in shards.
void digest_copies(const ShardArena& weights, std::span<PlacedPart> parts);

/// Collective over `comm`. Sums the digests and counts of the parts over the ranks, for every rank.
void sum_over_ranks(Communicator& comm, std::span<PlacedPart> parts);

/// Digest of all frozen weights, with their names and places, in the arena's type: the same for any number of
/// ranks and any layout of their files, and whether they are stored, in memory or elsewhere.
class FrozenDigest {
 public:
  /// Collective over `comm`. Adds the weights that are in memory. The stored units of `weights`, `comm` and
  /// `manifest` must outlive this object.
  FrozenDigest(Communicator& comm, const ShardArena& weights, const ParameterManifest& manifest);
  /// Adds this rank's shard of a unit that is elsewhere; no expert of it may be shared between ranks.
  void add(int unit, const std::byte* bytes);
  /// Collective over `comm`. The digest; must be called once, when every unit that is elsewhere was added.
  [[nodiscard]] Digest sum();

 private:
  Communicator& comm_;
  const ParameterManifest& manifest_;
  const StoredLayout* stored_;
  DType dtype_;
  std::vector<PlacedPart> parts_;
  std::set<int> missing_;  ///< units that are still to be added
};

}  // namespace sluice
