#include "train/gradient_reducer.hpp"

#include "base/error.hpp"
#include "ops/buffers/gradients.hpp"
#include "ops/runtime/compute_device.hpp"

#include <ATen/ops/from_blob.h>

#include <utility>

namespace sluice {
namespace {

float* floats(std::byte* data) { return reinterpret_cast<float*>(data); }

}  // namespace

GradientReducer::GradientReducer(const RankMesh& mesh, const StagePlan& stages, ParameterViews& views,
                                 ShardArena& gradients)
    : mesh_(mesh),
      views_(views),
      gradients_(gradients),
      overlaps_(!stages.reduces_experts(gradients.plan(), gradients.rank())),
      room_(stages.gradient_elements(gradients.plan(), gradients.rank()) * size_of(DType::kFloat32),
            "gradient buffer"),
      has_gradient_(gradients.plan().layouts().units.size(), false) {}

std::int64_t GradientReducer::held_elements(int unit) const {
  return gradients_.plan().gathered_range(unit, gradients_.rank()).count();
}

std::int64_t GradientReducer::received_bytes(const Stage& stage) const {
  return gathered_elements(stage, gradients_.plan(), gradients_.rank()).all() * size_of(DType::kFloat32);
}

void GradientReducer::begin_step() { has_gradient_.assign(has_gradient_.size(), false); }

void GradientReducer::open(const Stage& stage) {
  open_ = room_.take(received_bytes(stage));
  float* next = floats(open_.data());
  for (const int unit : stage.units) {
    float* held = in_arena(unit) ? floats(gradients_.unit_data(unit)) : next;
    views_.set_written(unit, in_arena(unit) && has_gradient_[static_cast<std::size_t>(unit)]);
    views_.bind_gradients(unit, held);
    if (in_arena(unit)) continue;
    clear_gaps(unit, held);
    next += held_elements(unit);
  }
}

at::Tensor GradientReducer::open_rows(const Stage& stage, const RowExchange& rows) {
  SLUICE_ASSERT(rows.fits(), "{} rows of a table that has too few for them", rows.rows().size());
  rows_ = &rows;
  open_ = room_.take(received_bytes(stage));
  const std::int64_t count = std::ssize(rows.rows());
  ops::clear(floats(open_.data()), count * rows.width());
  return at::from_blob(open_.data(), {count, rows.width()}, ops::compute_options(at::kFloat));
}

void GradientReducer::reduce(const Stage& stage) {
  finish();
  reduced_ = std::exchange(open_, {});
  if (rows_ != nullptr) return reduce_rows(stage.units.front());
  float* next = floats(reduced_.data());
  for (const int unit : stage.units) {
    views_.clear_unwritten(unit);
    views_.unbind_gradients(unit);
    if (!in_arena(unit)) {
      reductions_.push_back(begin_unit(unit, next));
      next += held_elements(unit);
    }
    has_gradient_[static_cast<std::size_t>(unit)] = true;
  }
  if (!overlaps_) finish();
}

void GradientReducer::finish() {
  for (Reduction& reduction : reductions_) {
    reduction.work.wait();
    const auto& [work, part, shard, count] = reduction;
    if (part != shard) ops::add(part, count, shard);
  }
  reductions_.clear();
  room_.give_back(std::exchange(reduced_, {}));
}

void GradientReducer::clear_gaps(int unit, float* held) const {
  const FlatLayout& layout = gradients_.plan().layouts().units[static_cast<std::size_t>(unit)];
  layout.for_each_gap(held_elements(unit),
                      [&](std::int64_t begin, std::int64_t count) { ops::clear(held + begin, count); });
}

GradientReducer::Reduction GradientReducer::begin_unit(int unit, float* held) {
  const ShardPlan& plan = gradients_.plan();
  const Range owned = plan.owned(unit, gradients_.rank());
  float* const shard = floats(gradients_.unit_data(unit));
  const bool adds = has_gradient_[static_cast<std::size_t>(unit)];
  float* const part = adds ? held + owned.begin - plan.gathered_range(unit, gradients_.rank()).begin : shard;
  return {mesh_.sharers(plan, unit).reduce_scatter_sum(held, part, plan.counts(unit, gradients_.rank())),
          part, shard, owned.count()};
}

void GradientReducer::reduce_rows(int unit) {
  const int rank = gradients_.rank();
  float* const shard = floats(gradients_.unit_data(unit));
  if (!has_gradient_[static_cast<std::size_t>(unit)])
    ops::clear(shard, gradients_.plan().owned(unit, rank).count());
  rows_->add_to(shard, floats(reduced_.data()));
  rows_ = nullptr;
  has_gradient_[static_cast<std::size_t>(unit)] = true;
}

}  // namespace sluice
