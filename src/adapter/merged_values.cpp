#include "adapter/merged_values.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace sluice {

MergedValues::MergedValues(const ParameterManifest& manifest, const ShardValues& weights,
                           const ShardValues& adapters)
    : manifest_(&manifest), weights_(weights), adapters_(&adapters), adapted_(adapted_weights(manifest)) {
  SLUICE_ASSERT(plan().world() == 1, "the weights are shared by {} ranks, expected one", plan().world());
  for (std::size_t i = 0; i < adapted_.size(); ++i)
    plan().owned_runs(adapted_[i].weight, 0, [&](const ShardPlan::OwnedRun& run) {
      runs_.push_back({run.arena_begin, run.count, run.tensor_begin, i});
    });
  std::ranges::sort(runs_, {}, &Run::place);
}

MergedValues::MergedValues(const ShardValues& weights, const std::vector<StoredChange>& changes)
    : weights_(weights), changes_(&changes) {
  for (const StoredChange& change : changes) {
    runs_.push_back({change.place, change.count, change.tensor_begin, adapted_.size()});
    adapted_.push_back(change.adapted);
  }
  std::ranges::sort(runs_, {}, &Run::place);
}

std::vector<MergedValues::Run>::const_iterator MergedValues::first_behind(std::int64_t element) const {
  return std::ranges::upper_bound(runs_, element, {}, &Run::end);
}

const std::byte* MergedValues::find(std::int64_t begin, DType dtype) const {
  const auto run = first_behind(begin);
  return run != runs_.end() && run->place <= begin ? nullptr : weights_.find(begin, dtype);
}

void MergedValues::read(std::int64_t begin, std::int64_t count, DType dtype, std::byte* out) const {
  const std::int64_t end = begin + count;
  auto run = first_behind(begin);
  if (run == runs_.end() || run->place >= end) return weights_.read(begin, count, dtype, out);
  values_.resize(static_cast<std::size_t>(count));
  weights_.read(begin, count, DType::kFloat32, reinterpret_cast<std::byte*>(values_.data()));
  for (; run != runs_.end() && run->place < end; ++run) {
    const Range places{std::max(begin, run->place), std::min(end, run->end())};
    add(*run, places, values_.data() + (places.begin - begin));
  }
  rounded_.resize(static_cast<std::size_t>(count * size_of(weights_.dtype())));
  convert_elements(values_.data(), DType::kFloat32, rounded_.data(), weights_.dtype(), count);
  convert_elements(rounded_.data(), weights_.dtype(), out, dtype, count);
}

/// Values of a whole tensor of the adapters.
std::vector<float> MergedValues::adapter_values(int tensor) const {
  std::vector<float> values(static_cast<std::size_t>((*manifest_)[tensor].element_count()));
  plan().owned_runs(tensor, 0, [&](const ShardPlan::OwnedRun& run) {
    adapters_->read(run.arena_begin, run.count, DType::kFloat32,
                    reinterpret_cast<std::byte*>(values.data() + run.tensor_begin));
  });
  return values;
}

MergedValues::Factors MergedValues::factors_of(const Run& run) const {
  if (changes_ != nullptr) return {(*changes_)[run.adapted].a.data(), (*changes_)[run.adapted].b.data()};
  const AdaptedWeight& adapted = adapted_[run.adapted];
  if (held_ != run.adapted) {
    a_ = adapter_values(adapted.a);
    b_ = adapter_values(adapted.b);
    held_ = run.adapted;
  }
  const std::int64_t row = run.tensor_begin / adapted.in;
  return {a_.data() + row / adapted.out * adapted.rank * adapted.in, b_.data() + row * adapted.rank};
}

/// Adds the adapter to some elements of a run, row by row.
void MergedValues::add(const Run& run, Range places, float* values) const {
  const AdaptedWeight& adapted = adapted_[run.adapted];
  const Factors factors = factors_of(run);
  const std::int64_t first_row = run.tensor_begin / adapted.in, first_matrix = first_row / adapted.out;
  for (std::int64_t place = places.begin; place < places.end;) {
    const std::int64_t element = run.tensor_begin + place - run.place;
    const std::int64_t row = element / adapted.in, column = element % adapted.in;
    const std::int64_t count = std::min(adapted.in - column, places.end - place);
    const std::int64_t matrix = row / adapted.out - first_matrix;
    add_adapter_to_row(adapted, factors.b + (row - first_row) * adapted.rank,
                       factors.a + matrix * adapted.rank * adapted.in + column, count,
                       values + (place - places.begin), change_);
    place += count;
  }
}

}  // namespace sluice
