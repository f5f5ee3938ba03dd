#include "train/gradient_reducer.hpp"

#include <algorithm>
#include <functional>

namespace sluice {
namespace {

float* floats(std::byte* data) { return reinterpret_cast<float*>(data); }

}  // namespace

GradientReducer::GradientReducer(Communicator& comm, const StagePlan& stages, ParameterViews& views,
                                 ShardArena& gradients)
    : comm_(comm),
      views_(views),
      gradients_(gradients),
      has_gradient_(gradients.plan().layouts().units.size(), false) {
  if (comm.size() == 1) return;
  const std::int64_t elements = stages.largest_stage_elements(gradients.plan().layouts());
  buffer_ = allocate(MemoryKind::kPrivate, elements * size_of(DType::kFloat32), "gradient buffer");
}

void GradientReducer::begin_step() { has_gradient_.assign(has_gradient_.size(), false); }

void GradientReducer::open(const Stage& stage) {
  float* next = floats(buffer_.data());
  for (const int unit : stage.units) {
    const std::int64_t elements =
        gradients_.plan().layouts().units[static_cast<std::size_t>(unit)].elements();
    const bool in_arena = buffer_.data() == nullptr;
    float* whole = in_arena ? floats(gradients_.unit_data(unit)) : next;
    const bool keep = in_arena && has_gradient_[static_cast<std::size_t>(unit)];
    if (!keep) std::fill_n(whole, elements, 0.0f);
    views_.bind_gradients(unit, whole);
    if (!in_arena) next += elements;
  }
}

void GradientReducer::reduce(const Stage& stage) {
  float* next = floats(buffer_.data());
  for (const int unit : stage.units) {
    views_.unbind_gradients(unit);
    if (buffer_.data() != nullptr) {
      reduce_unit(unit, next);
      next += gradients_.plan().layouts().units[static_cast<std::size_t>(unit)].elements();
    }
    has_gradient_[static_cast<std::size_t>(unit)] = true;
  }
}

void GradientReducer::reduce_unit(int unit, float* whole) {
  const Range owned = gradients_.plan().owned(unit, comm_.rank());
  float* shard = floats(gradients_.unit_data(unit));
  if (!has_gradient_[static_cast<std::size_t>(unit)]) {
    comm_.reduce_scatter_sum(whole, shard, gradients_.plan().counts(unit));
    return;
  }
  float* part = whole + owned.begin;
  comm_.reduce_scatter_sum(whole, part, gradients_.plan().counts(unit));
  std::transform(shard, shard + owned.count(), part, shard, std::plus<>());
}

}  // namespace sluice
