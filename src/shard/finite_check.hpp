// Search for the tensor with a number that is NaN or infinite.
#pragma once

#include "comm/communicator.hpp"
#include "manifest/manifest.hpp"
#include "shard/arena.hpp"
#include "shard/shard_values.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace sluice {

/// Order in which units are searched: the order of the forward pass, or of the backward pass, in which
/// gradients go wrong.
enum class UnitOrder : std::uint8_t { kForward, kBackward };

/// A tensor that has a NaN or an infinity; an empty name if none has.
struct NonFinite {
  std::int64_t place = -1;  ///< orders findings: by units, and within a unit by elements of its buffer
  /// name of the tensor, "model.layers.0.mlp.gate.weight"; of fused experts with the expert's number
  std::string name{};
  [[nodiscard]] bool found() const { return !name.empty(); }
};

/// The first tensor with a NaN or an infinity among elements of a unit's buffer, of type bfloat16 or float32,
/// which begin at `data`. Gaps between tensors do not count.
[[nodiscard]] NonFinite find_non_finite(const ShardPlan& plan, const ParameterManifest& manifest, int unit,
                                        Range elements, const std::byte* data, DType dtype,
                                        UnitOrder order = UnitOrder::kForward);
/// The first tensor with a NaN or an infinity in a rank's shard of a stored unit.
[[nodiscard]] NonFinite find_non_finite(const StoredUnitValues& values, const ParameterManifest& manifest,
                                        int unit, UnitOrder order = UnitOrder::kForward);
/// The first tensor with a NaN or an infinity in a rank's arena, or among trained float32 parameters beside it;
/// units that are elsewhere are not searched.
[[nodiscard]] NonFinite find_non_finite(const ShardArena& shards, const ParameterManifest& manifest,
                                        UnitOrder order = UnitOrder::kForward);

/// Index of the first NaN or infinity among `count` numbers of type bfloat16 or float32, in memory that the
/// processor reads; -1: all are finite.
[[nodiscard]] std::int64_t first_non_finite(const std::byte* data, std::int64_t count, DType dtype);
/// Throws Error(kNumerics), which says that an update has made weights of `tensor` NaN or infinite.
[[noreturn]] void fail_for_updated(const std::string& tensor);

/// Collective over `comm`. The first finding of all ranks, by NonFinite::place, with its rank: "NAME on rank
/// 1"; "" if no rank has one.
[[nodiscard]] std::string first_of_ranks(Communicator& comm, const NonFinite& own);

}  // namespace sluice
