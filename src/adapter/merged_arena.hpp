// An arena's weights after adapters were merged into them, where some are stored and stay as they are.
#pragma once

#include "adapter/merge.hpp"
#include "shard/shard_values.hpp"

#include <cstdint>
#include <vector>

namespace sluice {

/// The weights with what merge_adapters() has left to be added to stored ones: these are read as the sum of
/// both, worked out in float32 and rounded once to the arena's type.
class MergedArena final : public ShardValues {
 public:
  /// `arena` and `changes`, as merge_adapters() has left them, must outlive this.
  MergedArena(const ShardArena& arena, const std::vector<StoredChange>& changes);

  [[nodiscard]] const ShardPlan& plan() const override { return base_.plan(); }
  [[nodiscard]] int rank() const override { return base_.rank(); }
  [[nodiscard]] DType dtype() const override { return base_.dtype(); }
  void read(std::int64_t begin, std::int64_t count, DType dtype, std::byte* out) const override;
  void read_buffers(std::int64_t begin, std::int64_t count, float* out) const override {
    base_.read_buffers(begin, count, out);
  }
  [[nodiscard]] const std::byte* find(std::int64_t begin, DType dtype) const override {
    return base_.find(begin, dtype);
  }

 private:
  ArenaValues base_;
  std::vector<const StoredChange*> changes_;  ///< adapters of stored matrices, in the order of their places
};

}  // namespace sluice
