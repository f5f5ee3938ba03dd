#include "checkpoint/merged_values.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace sluice {

MergedValues::MergedValues(const ParameterManifest& manifest, const ShardValues& weights,
                           const ShardValues& adapters)
    : manifest_(manifest), weights_(weights), adapters_(adapters), adapted_(adapted_weights(manifest)) {
  SLUICE_ASSERT(plan().world() == 1, "values of {} ranks", plan().world());
  for (std::size_t i = 0; i < adapted_.size(); ++i)
    plan().owned_runs(adapted_[i].weight, 0, [&](const ShardPlan::OwnedRun& run) {
      runs_.push_back({run.arena_begin, run.count, run.tensor_begin, i});
    });
  std::ranges::sort(runs_, {}, &Run::arena_begin);
}

void MergedValues::read(std::int64_t begin, std::int64_t count, DType dtype, std::byte* out) const {
  values_.resize(static_cast<std::size_t>(count));
  weights_.read(begin, count, DType::kFloat32, reinterpret_cast<std::byte*>(values_.data()));
  const std::int64_t end = begin + count;
  auto run = std::ranges::upper_bound(runs_, begin, {}, &Run::arena_begin);
  if (run != runs_.begin()) --run;
  for (; run != runs_.end() && run->arena_begin < end; ++run) {
    const std::int64_t first = std::max(begin, run->arena_begin);
    const std::int64_t last = std::min(end, run->arena_begin + run->count);
    if (first < last)
      add(*run, run->tensor_begin + first - run->arena_begin, last - first, values_.data() + (first - begin));
  }
  convert_elements(values_.data(), DType::kFloat32, out, dtype, count);
}

/// All of a tensor.
std::vector<float> MergedValues::values_of(int tensor) const {
  std::vector<float> values(static_cast<std::size_t>(manifest_[tensor].element_count()));
  plan().owned_runs(tensor, 0, [&](const ShardPlan::OwnedRun& run) {
    adapters_.read(run.arena_begin, run.count, DType::kFloat32,
                   reinterpret_cast<std::byte*>(values.data() + run.tensor_begin));
  });
  return values;
}

/// Adds the adapter to `count` elements of the run's weight from its `begin`-th on, row by row.
void MergedValues::add(const Run& run, std::int64_t begin, std::int64_t count, float* values) const {
  const AdaptedWeight& adapted = adapted_[run.adapted];
  if (held_ != run.adapted) {
    a_ = values_of(adapted.a);
    b_ = values_of(adapted.b);
    held_ = run.adapted;
  }
  const std::int64_t end = begin + count;
  while (begin < end) {
    const std::int64_t row = begin / adapted.in, column = begin % adapted.in;
    const std::int64_t part = std::min(end - begin, adapted.in - column);
    const std::int64_t expert = row / adapted.out;
    add_adapter_to_row(adapted, b_.data() + row * adapted.rank,
                       a_.data() + expert * adapted.rank * adapted.in + column, part, values, change_);
    begin += part;
    values += part;
  }
}

}  // namespace sluice
