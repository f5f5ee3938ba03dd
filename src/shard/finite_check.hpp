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

/// The order in which units are looked at: that of the forward pass, or that of the backward pass, in which
/// gradients go wrong.
enum class UnitOrder : std::uint8_t { kForward, kBackward };

/// A tensor with such a number; no name if there is none.
struct NonFinite {
  std::int64_t place = -1;  ///< orders findings: by units, and within a unit by elements of its buffer
  std::string name{};       ///< "model.layers.0.mlp.gate.weight", of fused experts with the expert's number
  [[nodiscard]] bool found() const { return !name.empty(); }
};

/// The first one among elements of a unit's buffer, of type bfloat16 or float32, which begin at `data`. What
/// lies between tensors does not count.
[[nodiscard]] NonFinite find_non_finite(const ShardPlan& plan, const ParameterManifest& manifest, int unit,
                                        Range elements, const std::byte* data, DType dtype,
                                        UnitOrder order = UnitOrder::kForward);
/// The first one in a rank's shard of a stored unit.
[[nodiscard]] NonFinite find_non_finite(const StoredUnitValues& values, const ParameterManifest& manifest,
                                        int unit, UnitOrder order = UnitOrder::kForward);
/// The first one in a rank's arena, but for units that are elsewhere.
[[nodiscard]] NonFinite find_non_finite(const ShardArena& shards, const ParameterManifest& manifest,
                                        UnitOrder order = UnitOrder::kForward);

/// Index of the first such number of `count`, of type bfloat16 or float32, in memory that the processor
/// reads; -1: there is none.
[[nodiscard]] std::int64_t first_non_finite(const std::byte* data, std::int64_t count, DType dtype);
/// Error(kNumerics): an update has made the tensor so.
[[noreturn]] void fail_for_updated(const std::string& tensor);

/// Collective over `comm`. Of the findings of all ranks the first by place, with its rank: "NAME on rank 1";
/// "" without any.
[[nodiscard]] std::string first_of_ranks(Communicator& comm, const NonFinite& own);

}  // namespace sluice
