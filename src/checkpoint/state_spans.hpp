// State of a rank as ranges of logical tensors: the one form in which weights and the optimizer's state are
// saved and restored, whatever the layout of shards. A tensor has several arrays of numbers: "weights", and
// those of the optimizer's state that describe_state() names. The numbers of an array are counted over the
// whole tensor: elements row-major; or matrix after matrix (a fused tensor has one for each expert) its
// blocks, rows or columns.
#pragma once

#include "plan/optimizer_layout.hpp"
#include "shard/arena.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice {

inline constexpr std::string_view kWeightsArray = "weights";

/// Consecutive numbers of one array of a tensor, in this rank's memory.
struct StateSpan {
  int tensor = -1;         ///< index of the tensor in the manifest
  int unit = -1;           ///< unit of the tensor; for one that ranks hold whole, ShardPlan::whole_unit()
  std::string_view array;  ///< name of the array: kWeightsArray, or name_of(StateArray)
  DType dtype = DType::kFloat32;
  Range numbers;  ///< range of numbers, counted over the whole tensor
  std::byte* data = nullptr;
  bool is_copy = false;  ///< whether other ranks keep the same numbers, one of which saves them

  [[nodiscard]] std::int64_t bytes() const { return numbers.count() * size_of(dtype); }
};

/// Optimizer state of this rank: `block` is laid out as `layout` says. Null without an optimizer.
struct OptimizerBlock {
  const OptimizerLayout* layout = nullptr;
  OptimizerMode mode{};
  std::byte* block = nullptr;
};

/// Lists all state of this rank that training changes, and the tensors that ranks hold whole, ordered by unit, tensor,
/// array and numbers. Refers to the memory of both.
[[nodiscard]] std::vector<StateSpan> list_state(const ParameterManifest& manifest, const ShardArena& weights,
                                                const OptimizerBlock& optimizer);

/// Reorders spans so that units come in the order in which a backward pass updates them.
void order_backward(std::vector<StateSpan>& spans);

}  // namespace sluice
