#include "train/stage_binder.hpp"

#include <cstddef>
#include <vector>

namespace sluice {

StageBinder::StageBinder(Communicator& comm, const ParameterManifest& manifest, const ShardArena& weights,
                         bool tied_head)
    : stages_(make_stage_plan(weights.plan().layouts(), tied_head)),
      views_(manifest, weights.plan().layouts(), weights.dtype()),
      gatherer_(comm, weights, stages_) {}

StageBinder::Bound::Bound(StageBinder& binder, const Stage& stage) : binder_(binder), stage_(stage) {
  const PhaseTimer::Scope phase(binder.timer_, Phase::kGather);
  const std::vector<std::byte*> units = binder.gatherer_.gather(stage);
  for (std::size_t i = 0; i < units.size(); ++i) binder.views_.bind(stage.units[i], units[i]);
}

StageBinder::Bound::~Bound() {
  for (const int unit : stage_.units) binder_.views_.unbind(unit);
  binder_.gatherer_.release();
}

}  // namespace sluice
