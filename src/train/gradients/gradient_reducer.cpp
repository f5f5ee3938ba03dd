#include "train/gradients/gradient_reducer.hpp"

#include "base/error.hpp"
#include "base/fault.hpp"
#include "base/trace/recorder.hpp"
#include "device/copy.hpp"
#include "ops/buffers/gradients.hpp"
#include "ops/runtime/tensor_device.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace sluice {
namespace {

float* floats(std::byte* data) { return reinterpret_cast<float*>(data); }

}  // namespace

GradientReducer::GradientReducer(const RankMesh& mesh, const StagePlan& stages, ParameterViews& views,
                                 GradientStore& store, GradientConsumer consumer)
    : mesh_(mesh),
      stages_(stages),
      views_(views),
      store_(store),
      consumer_(std::move(consumer)),
      overlaps_(!stages.reduces_experts(store.plan(), store.rank())),
      room_(store.memory(), stages.gradient_elements(store.plan(), store.rank()) * size_of(DType::kFloat32),
            "gradient buffer"),
      stream_(store.memory()),
      has_gradient_(store.plan().layouts().units.size(), false) {
  if (store.has_experts_in_turn())
    views.take_experts_in_turn([this](int unit, std::int64_t expert) { consume_expert(unit, expert); });
  views.bind_whole_gradients(store.sums(store.plan().whole_unit()));
}

bool GradientReducer::takes_experts_in_turn(int unit) const {
  return store_.has_experts_in_turn() && store_.plan().has_experts(unit);
}

/// A tied embedding gets gradients from the head first.
bool GradientReducer::is_final(const Stage& stage, int unit) const {
  return &stage != &stages_.head || unit != tied_unit(stages_);
}

/// Fault point at which a test makes a gradient of one rank wrong.
void GradientReducer::spoil_if_tested(int unit, float* gradients) const {
  const auto bytes = static_cast<std::size_t>(held_elements(unit) * size_of(DType::kFloat32));
  if (!takes_experts_in_turn(unit))
    fault_point("train.gradient", store_.rank(), {reinterpret_cast<std::byte*>(gradients), bytes});
}

void GradientReducer::consume(int unit) {
  const Range owned = store_.plan().owned(unit, store_.rank());
  mesh_.sum_over_sets({store_.sums(unit), static_cast<std::size_t>(owned.count())});
  consumer_({unit, owned, reinterpret_cast<const std::byte*>(store_.sums(unit)), DType::kFloat32});
}

void GradientReducer::consume_expert(int unit, std::int64_t expert) {
  const std::int64_t elements = store_.plan().layouts().units[static_cast<std::size_t>(unit)].expert_begin(1);
  const std::int64_t begin = store_.plan().owned(unit, store_.rank()).begin + expert * elements;
  fault_point("train.expert_gradient", store_.rank(),
              {reinterpret_cast<std::byte*>(store_.sums(unit)), sizeof(float)});
  consumer_({unit,
             {begin, begin + elements},
             reinterpret_cast<const std::byte*>(store_.sums(unit)),
             DType::kFloat32});
}

std::int64_t GradientReducer::held_elements(int unit) const {
  return store_.plan().gathered_range(unit, store_.rank()).count();
}

std::int64_t GradientReducer::received_bytes(const Stage& stage) const {
  return reduced_elements(stage, store_.plan(), store_.rank()).all() * size_of(DType::kFloat32);
}

void GradientReducer::begin_step() {
  has_gradient_.assign(has_gradient_.size(), false);
  room_.give_back(std::exchange(open_, {}));  // frees the buffer of a step that was given up
  rows_ = nullptr;
  row_gradients_.reset();
  const int whole = store_.plan().whole_unit();
  ops::clear(store_.sums(whole), store_.plan().owned(whole, store_.rank()).count());
}

void GradientReducer::open(const Stage& stage) {
  open_ = room_.take(received_bytes(stage));
  float* next = floats(open_.data());
  for (const int unit : stage.units) {
    if (!is_trained(unit)) continue;
    float* held = is_alone(unit) ? store_.sums(unit) : next;
    views_.set_written(unit, ops::Written{is_alone(unit) && has_gradient_[static_cast<std::size_t>(unit)]});
    views_.bind_gradients(unit, held);
    if (store_.plan().is_by_rows(unit)) clear_behind_rows(unit, held);
    if (is_alone(unit)) continue;
    clear_gaps(unit, held);
    next += held_elements(unit);
  }
}

at::Tensor GradientReducer::open_rows(const Stage& stage, const RowExchange& rows) {
  rows_ = &rows;
  open_ = room_.take(received_bytes(stage));
  const std::int64_t count = std::ssize(rows.rows());
  if (is_alone(stage.units.front())) {
    row_gradients_ = at::empty({rows.gradient_rows(), rows.width()}, at::kFloat);
    return row_gradients_.narrow(0, 0, count).zero_();
  }
  SLUICE_ASSERT(rows.fits(), "{} gradient rows do not fit the memory of their table", count);
  ops::clear(floats(open_.data()), count * rows.width());
  return ops::tensor_over(open_.data(), {count, rows.width()}, at::kFloat);
}

void GradientReducer::reduce(const Stage& stage) {
  const trace::Span span(trace::Kind::kOperation, "reduce", stage.units.front());
  finish();
  reduced_ = std::exchange(open_, {});
  if (rows_ != nullptr) return reduce_rows(stage.units.front());
  float* next = floats(reduced_.data());
  for (const int unit : stage.units) {
    if (!is_trained(unit)) continue;
    if (!takes_experts_in_turn(unit)) views_.clear_unwritten(unit);
    views_.unbind_gradients(unit);
    spoil_if_tested(unit, is_alone(unit) ? store_.sums(unit) : next);
    if (!is_alone(unit)) {
      reductions_.push_back(begin_unit(stage, unit, next));
      next += held_elements(unit);
    } else if (is_final(stage, unit) && !takes_experts_in_turn(unit)) {
      consume(unit);
    }
    has_gradient_[static_cast<std::size_t>(unit)] = true;
  }
  if (!overlaps_) finish();
}

void GradientReducer::finish() {
  for (Reduction& reduction : reductions_) {
    reduction.work.make_stream_wait(kComputeStream);
    if (reduction.part != reduction.shard) ops::add(reduction.part, reduction.count, reduction.shard);
  }
  // The consumers of finished gradients may use collectives, so no reduction may be in flight.
  for (const Reduction& reduction : std::exchange(reductions_, {}))
    if (reduction.is_final) consume(reduction.unit);
  room_.give_back(std::exchange(reduced_, {}));
}

void GradientReducer::reduce_whole() {
  const int whole = store_.plan().whole_unit();
  if (!is_trained(whole)) return;
  const Range elements = store_.plan().owned(whole, store_.rank());
  float* const sums = store_.sums(whole);
  std::vector<float> own(static_cast<std::size_t>(elements.count()));
  const std::int64_t bytes = elements.count() * size_of(DType::kFloat32);
  copy_bytes(own.data(), sums, bytes);
  std::vector<double> all(own.begin(), own.end());
  mesh_.sets().all().all_reduce_sum(all);
  std::ranges::transform(all, own.begin(), [](double sum) { return static_cast<float>(sum); });
  copy_bytes(sums, own.data(), bytes);
  consumer_({whole, elements, reinterpret_cast<const std::byte*>(sums), DType::kFloat32});
}

void GradientReducer::clear_gaps(int unit, float* held) const {
  const FlatLayout& layout = store_.plan().layouts().units[static_cast<std::size_t>(unit)];
  layout.for_each_gap(held_elements(unit),
                      [&](std::int64_t begin, std::int64_t count) { ops::clear(held + begin, count); });
}

void GradientReducer::clear_behind_rows(int unit, float* held) const {
  const Placement& table = store_.plan().layouts().units[static_cast<std::size_t>(unit)].placements().front();
  const std::int64_t written = store_.plan().owned_rows(unit, store_.rank()).count() * table.row_elements;
  ops::clear(held + written, held_elements(unit) - written);
}

GradientReducer::Reduction GradientReducer::begin_unit(const Stage& stage, int unit, float* held) {
  const ShardPlan& plan = store_.plan();
  const Range owned = plan.owned(unit, store_.rank());
  float* const shard = store_.sums(unit);
  const bool adds = has_gradient_[static_cast<std::size_t>(unit)];
  float* const part = adds ? held + owned.begin - plan.gathered_range(unit, store_.rank()).begin : shard;
  return {.work = mesh_.reducers(plan, unit)
                      .reduce_scatter_sum(held, part, plan.counts(unit, store_.rank()),
                                          stream_.after_compute(), plan.dims().wire.gradients),
          .unit = unit,
          .part = part,
          .shard = shard,
          .count = owned.count(),
          .is_final = is_final(stage, unit)};
}

void GradientReducer::reduce_rows(int unit) {
  float* const shard = store_.sums(unit);
  if (!has_gradient_[static_cast<std::size_t>(unit)])
    ops::clear(shard, store_.plan().owned(unit, store_.rank()).count());
  rows_->add_to(shard,
                is_alone(unit) ? static_cast<float*>(row_gradients_.data_ptr()) : floats(reduced_.data()));
  rows_ = nullptr;
  row_gradients_.reset();
  consume(unit);
  has_gradient_[static_cast<std::size_t>(unit)] = true;
}

}  // namespace sluice
