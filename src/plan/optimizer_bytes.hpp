// Bytes of the optimizer's state on any of many ranks. Pure arithmetic over manifest and shard plan.
#pragma once

#include "plan/optimizer_state.hpp"
#include "shard/shard_plan.hpp"

#include <cstdint>
#include <vector>

namespace sluice {

/// Total bytes of an OptimizerLayout, without a list of each rank's matrices.
class OptimizerBytes {
 public:
  /// `manifest` is used by the constructor alone; `plan` must outlive this object.
  OptimizerBytes(const ParameterManifest& manifest, const ShardPlan& plan, const OptimizerMode& mode,
                 DType weights);

  /// Bytes of each unit on `rank`, as OptimizerLayout::unit_bytes() gives them: at last those of the float32
  /// parameters, which are the same on every rank.
  [[nodiscard]] std::vector<std::int64_t> of_units(int rank) const;

 private:
  /// The matrices of a placed tensor: equal ones, one in each block.
  struct Matrices {
    Placement placement;
    MatrixShape shape;
    std::vector<StatePart> parts;
    std::int64_t whole_bytes = 0;  ///< bytes of a tensor that one rank owns entirely
  };

  [[nodiscard]] static std::int64_t owned_bytes(const Matrices& matrices, Range owned);

  const ShardPlan& plan_;
  std::vector<std::vector<Matrices>> units_;
  std::int64_t whole_bytes_ = 0;  ///< bytes of the float32 parameters' state
};

}  // namespace sluice
