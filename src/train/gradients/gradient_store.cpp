#include "train/gradients/gradient_store.hpp"

#include "base/error.hpp"
#include "ops/buffers/gradients.hpp"

namespace sluice {

GradientStore::GradientStore(const ShardPlan& plan, const StagePlan& stages, int rank, GradientMode mode,
                             ExpertGradients experts, MemoryKind memory)
    : plan_(plan),
      rank_(rank),
      mode_(mode),
      memory_(memory),
      has_experts_in_turn_(experts == ExpertGradients::kInTurn && mode != GradientMode::kFloat32),
      tied_(tied_unit(stages)) {
  const GradientMemory planned = plan_gradients(plan, stages, rank, mode, experts);
  if (mode != GradientMode::kRelease)
    shards_.emplace(plan, rank, mode == GradientMode::kFloat32 ? DType::kFloat32 : DType::kBFloat16, memory,
                    "gradient shards", ShardArena::Units::kTrained);
  dense_ = allocate(memory, planned.dense, "gradients of a stage");
  experts_ = allocate(memory, planned.experts, "gradients of experts");
  kept_ = allocate(memory, planned.kept, "gradients of the tied embedding");
  whole_ = allocate(memory, planned.whole, "gradients of float32 parameters");
}

float* GradientStore::sums(int unit) const {
  if (unit == plan_.whole_unit()) return reinterpret_cast<float*>(whole_.data());
  if (mode_ == GradientMode::kFloat32) return reinterpret_cast<float*>(shards_->unit_data(unit));
  if (unit == tied_) return reinterpret_cast<float*>(kept_.data());
  return reinterpret_cast<float*>(plan_.has_experts(unit) ? experts_.data() : dense_.data());
}

void GradientStore::keep_rounded(const GradientPart& sums) {
  SLUICE_ASSERT(mode_ == GradientMode::kBFloat16, "gradients are not kept in bfloat16");
  if (sums.unit == plan_.whole_unit()) return;
  const std::int64_t first = sums.elements.begin - plan_.owned(sums.unit, rank_).begin;
  ops::round_to_bfloat16(reinterpret_cast<const float*>(sums.data), sums.elements.count(),
                         shards_->unit_data(sums.unit) + first * size_of(DType::kBFloat16));
}

GradientPart GradientStore::kept(int unit) const {
  if (unit == plan_.whole_unit()) return {unit, plan_.owned(unit, rank_), whole_.data(), DType::kFloat32};
  return {unit, plan_.owned(unit, rank_), shards().unit_data(unit), shards().dtype()};
}

const ShardArena& GradientStore::shards() const {
  SLUICE_ASSERT(shards_, "gradients are released in this mode");
  return *shards_;
}

}  // namespace sluice
