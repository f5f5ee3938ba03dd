#include "train/stage_binder.hpp"

#include "base/trace/recorder.hpp"
#include "comm/position.hpp"
#include "ops/embedding.hpp"
#include "ops/runtime/tensor_device.hpp"

#include <ATen/ops/empty.h>

#include <cstddef>
#include <vector>

namespace sluice {

StageBinder::StageBinder(Communicator& comm, const ModelConfig& model, const ParameterManifest& manifest,
                         const ShardArena& weights, ExpertGradients experts)
    : comm_(comm),
      weights_(weights),
      plan_(weights.plan()),
      mesh_(comm, weights.plan().dims()),
      stages_(make_stage_plan(weights.plan().layouts(), TiedHead{model.tie_word_embeddings})),
      views_(manifest, weights.plan(), weights.rank(), weights.dtype(), weights.memory(), weights.stored(),
             experts),
      gatherer_(mesh_, weights, stages_),
      exchange_(mesh_.group(), model.experts, timer_, weights.memory(), plan_.dims().wire.tokens) {
  views_.bind_buffers(weights.buffers());
  if (plan_.is_by_rows(stages_.embed.units.front()))
    vocabulary_.emplace(mesh_.sets().own(), plan_, stages_, timer_);
}

std::optional<RowExchange> StageBinder::embedding_rows(std::span<const at::Tensor> ids) const {
  const int unit = stages_.embed.units.front();
  if (plan_.sharers(unit) == 1 || plan_.is_kept(unit)) return std::nullopt;
  RowExchange rows(mesh_, plan_, unit, ops::distinct_ids(ids));
  if (!vocabulary_ && !rows.fits()) return std::nullopt;
  return rows;
}

at::Tensor StageBinder::fetched(const RowExchange& rows) {
  const PhaseTimer::Scope phase(timer_, Phase::kGather);
  at::Tensor values = at::empty({std::ssize(rows.rows()), rows.width()}, ops::scalar_type(weights_.dtype()));
  rows.fetch(weights_.unit_data(stages_.embed.units.front()), static_cast<std::byte*>(values.data_ptr()),
             size_of(weights_.dtype()));
  return values;
}

StageBinder::GatheredStage::GatheredStage(StageBinder& binder, const Stage& stage, const Stage* next,
                                          const RowExchange* rows)
    : binder_(binder), stage_(stage), messages_([&comm = binder.comm_] { comm.advance(); }) {
  position::begin("stage", stage.units.front());
  const trace::Span span(trace::Kind::kOperation, "gather", stage.units.front());
  if (!binder.weights_.is_resident()) {
    const PhaseTimer::Scope phase(binder.timer_, Phase::kDisk);
    shards_.emplace(binder.weights_, stage);
  }
  const PhaseTimer::Scope phase(binder.timer_, Phase::kGather);
  const std::vector<std::byte*> units =
      rows != nullptr ? binder.gatherer_.gather_rows(stage, *rows) : binder.gatherer_.gather(stage);
  for (std::size_t i = 0; i < units.size(); ++i) binder.views_.bind(stage.units[i], units[i]);
  if (next != nullptr) binder.gatherer_.begin(*next);
}

StageBinder::GatheredStage::~GatheredStage() {
  for (const int unit : stage_.units) binder_.views_.unbind(unit);
  binder_.gatherer_.release();
}

}  // namespace sluice
