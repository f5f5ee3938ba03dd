// Layout of the optimizer's state of every matrix on a rank. Pure arithmetic over manifest and shard plan.
//
// One block of bytes, unit after unit, in it matrix after matrix in the order of the arena, in it array after
// array: so the state of a unit, and that of an expert, is one range.
#pragma once

#include "base/range.hpp"
#include "plan/optimizer_state.hpp"
#include "shard/shard_plan.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace sluice {

/// A matrix of a unit that a rank works with, and the part of it that the rank owns.
struct MatrixState {
  int tensor = -1;
  /// Index of the expert among all experts of the layer; -1: not a tensor of experts.
  std::int64_t expert = -1;
  MatrixShape shape;
  MasterFormat master = MasterFormat::kFloat32;
  StateFormat state = StateFormat::kFloat32;
  bool decays = false;  ///< whether weight decay applies, see is_decayed()
  /// Whether this is a float32 parameter, which lies beside the arena.
  bool is_whole = false;
  /// elements of the matrix that the rank owns; may be empty where several ranks share the unit
  Range owned;
  std::int64_t unit_begin = 0;   ///< first owned element, counted in the unit's buffer
  std::int64_t arena_begin = 0;  ///< first owned element, counted in the arena, or beside it
  /// first byte of each state array in the block; -1: the array is not kept
  std::array<std::int64_t, kStateArrays> offsets{};

  [[nodiscard]] std::int64_t offset(StateArray array) const {
    return offsets[static_cast<std::size_t>(array)];
  }
};

/// Places of the optimizer's state of one rank, matrix by matrix.
class OptimizerLayout {
 public:
  /// Lays out the state of what `rank` owns. `manifest` and `plan` are used by the constructor alone.
  OptimizerLayout(const ParameterManifest& manifest, const ShardPlan& plan, int rank,
                  const OptimizerMode& mode, DType weights);

  /// The matrices of a unit in the order of its buffer, none if it is frozen: all of a dense unit; of a unit
  /// of experts those of the rank's place; for ShardPlan::whole_unit() the float32 parameters. The list is the
  /// same on all ranks that share the unit.
  [[nodiscard]] const std::vector<MatrixState>& matrices(int unit) const {
    return units_[static_cast<std::size_t>(unit)];
  }
  [[nodiscard]] int units() const { return static_cast<int>(units_.size()); }
  /// Range of bytes in the block that holds a unit's state.
  [[nodiscard]] Range unit_bytes(int unit) const {
    return {unit_ends_[static_cast<std::size_t>(unit)], unit_ends_[static_cast<std::size_t>(unit) + 1]};
  }
  [[nodiscard]] std::int64_t bytes() const { return unit_ends_.back(); }
  /// Bytes of one array over all units, without alignment.
  [[nodiscard]] std::int64_t array_bytes(StateArray array) const {
    return array_bytes_[static_cast<std::size_t>(array)];
  }

  /// Alignment in bytes of every unit's state if it may be paged to a disk.
  static constexpr std::int64_t kPageAlignment = 4096;

 private:
  void add_matrices(const TensorInfo& tensor, const Placement& placement, const ShardPlan& plan, int unit,
                    int rank, std::vector<MatrixState>& out) const;
  void place_states(std::vector<MatrixState>& matrices, const ParameterManifest& manifest,
                    const OptimizerMode& mode, DType weights, std::int64_t& end);
  void place_state(MatrixState& matrix, const std::vector<StatePart>& parts, std::int64_t& end);

  std::vector<std::vector<MatrixState>> units_;
  std::vector<std::int64_t> unit_ends_{0};
  std::array<std::int64_t, kStateArrays> array_bytes_{};
};

}  // namespace sluice
