// Weights with an adapter merged into them, worked out piece by piece from files while they are written: no
// more is held than the adapter of one weight.
#pragma once

#include "adapter/merge.hpp"
#include "manifest/manifest.hpp"
#include "shard/shard_values.hpp"

#include <cstdint>
#include <vector>

namespace sluice {

/// Values of weights with their adapters merged, in one process: `weights` and `adapters` are values of the
/// same plan of one rank, whose manifest has the adapters.
class MergedValues final : public ShardValues {
 public:
  /// References must outlive this.
  MergedValues(const ParameterManifest& manifest, const ShardValues& weights, const ShardValues& adapters);

  [[nodiscard]] const ShardPlan& plan() const override { return weights_.plan(); }
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] DType dtype() const override { return DType::kFloat32; }
  [[nodiscard]] const std::byte* find(std::int64_t, DType) const override { return nullptr; }
  /// Reads merged elements as merge_adapters() makes them: W + scale * B A in float32, rounded once to
  /// `dtype`.
  void read(std::int64_t begin, std::int64_t count, DType dtype, std::byte* out) const override;
  void read_buffers(std::int64_t begin, std::int64_t count, float* out) const override {
    weights_.read_buffers(begin, count, out);
  }

 private:
  /// Consecutive elements of an adapted weight in the arena.
  struct Run {
    std::int64_t arena_begin = 0;
    std::int64_t count = 0;
    std::int64_t tensor_begin = 0;
    std::size_t adapted = 0;  ///< index into adapted_
  };

  [[nodiscard]] std::vector<float> values_of(int tensor) const;
  void add(const Run& run, std::int64_t begin, std::int64_t count, float* values) const;

  const ParameterManifest& manifest_;
  const ShardValues& weights_;
  const ShardValues& adapters_;
  std::vector<AdaptedWeight> adapted_;
  std::vector<Run> runs_;                ///< runs, ascending by arena_begin
  mutable std::size_t held_ = SIZE_MAX;  ///< index into adapted_ of the tensor whose A and B are held
  mutable std::vector<float> a_, b_, values_, change_;
};

}  // namespace sluice
