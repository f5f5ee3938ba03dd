// Weights with adapters merged into them, computed piece by piece while they are read.
#pragma once

#include "adapter/merge.hpp"
#include "manifest/manifest.hpp"
#include "shard/shard_values.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// Values W + scale * B A of weights with adapters, computed in float32 and rounded once to the type of the
/// other weights.
class MergedValues final : public ShardValues {
 public:
  /// `weights` and `adapters` are values of one plan of a single rank, whose manifest has the adapters. The
  /// adapter of one weight is held at a time. References must outlive this object.
  MergedValues(const ParameterManifest& manifest, const ShardValues& weights, const ShardValues& adapters);
  /// Merges what merge_adapters() leaves to be added to stored weights of a rank, besides those that it
  /// changed. References must outlive this object.
  MergedValues(const ShardValues& weights, const std::vector<StoredChange>& changes);

  [[nodiscard]] const ShardPlan& plan() const override { return weights_.plan(); }
  [[nodiscard]] int rank() const override { return weights_.rank(); }
  [[nodiscard]] DType dtype() const override { return weights_.dtype(); }
  [[nodiscard]] const std::byte* find(std::int64_t begin, DType dtype) const override;
  void read(std::int64_t begin, std::int64_t count, DType dtype, std::byte* out) const override;
  void read_buffers(std::int64_t begin, std::int64_t count, float* out) const override {
    weights_.read_buffers(begin, count, out);
  }

 private:
  /// Consecutive elements of an adapted weight in the arena.
  struct Run {
    std::int64_t place = 0, count = 0;
    std::int64_t tensor_begin = 0;
    std::size_t adapted = 0;  ///< index of the weight in adapted_
    [[nodiscard]] std::int64_t end() const { return place + count; }
  };
  /// Factors for a run: A [rank, in] of its matrix, and [rank] of B for each of its rows.
  struct Factors {
    const float* a = nullptr;
    const float* b = nullptr;
  };

  /// The first run that ends behind an element.
  [[nodiscard]] std::vector<Run>::const_iterator first_behind(std::int64_t element) const;
  [[nodiscard]] Factors factors_of(const Run& run) const;
  [[nodiscard]] std::vector<float> adapter_values(int tensor) const;
  void add(const Run& run, Range places, float* values) const;

  const ParameterManifest* manifest_ = nullptr;
  const ShardValues& weights_;
  const ShardValues* adapters_ = nullptr;  ///< values of the adapters; null if changes are given
  /// Changes, one for each of adapted_; null if adapters are given.
  const std::vector<StoredChange>* changes_ = nullptr;
  std::vector<AdaptedWeight> adapted_;
  std::vector<Run> runs_;                ///< runs, ascending by their place in the arena
  mutable std::size_t held_ = SIZE_MAX;  ///< index in adapted_ of the weight whose A and B are held
  mutable std::vector<float> a_, b_, values_, change_;
  mutable std::vector<std::byte> rounded_;
};

}  // namespace sluice
