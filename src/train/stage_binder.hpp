// Gathers a stage's units and binds them to the parameter views, for every pass over the layers.
#pragma once

#include "comm/communicator.hpp"
#include "decoder/parameter_views.hpp"
#include "model/model_config.hpp"
#include "ops/runtime/progress_hook.hpp"
#include "shard/arena_access.hpp"
#include "shard/stage_plan.hpp"
#include "shard/unit_gatherer.hpp"
#include "train/expert_exchange.hpp"
#include "train/phase_timer.hpp"

#include <optional>
#include <span>

namespace sluice {

class StageBinder {
 public:
  /// Collective over `comm`, which carries the memory that is computed in. All references must outlive the
  /// binder. Allocates the gather slots. `experts` as in ParameterViews.
  StageBinder(Communicator& comm, const ModelConfig& model, const ParameterManifest& manifest,
              const ShardArena& weights, ExpertGradients experts = ExpertGradients::kTogether);

  /// A stage's units, gathered and bound to the views for as long as this lives. Messages under way go on
  /// while this thread computes with them.
  class GatheredStage {
   public:
    /// Collective over the binder's communicator. `next`, if it is not null, is the stage that will be bound
    /// next, with the weights as they are now: its dense units are gathered meanwhile. `rows`, if it is not
    /// null: of the embedding's stage these rows alone.
    GatheredStage(StageBinder& binder, const Stage& stage, const Stage* next,
                  const RowExchange* rows = nullptr);
    ~GatheredStage();
    GatheredStage(const GatheredStage&) = delete;
    GatheredStage& operator=(const GatheredStage&) = delete;

   private:
    StageBinder& binder_;
    const Stage& stage_;
    ops::ProgressHook messages_;
    std::optional<StageAccess> shards_;
  };

  /// What the stages from here on are bound for.
  void begin_pass(ArenaPass pass) { sluice::begin_pass(weights_, pass); }

  /// Collective over the binder's communicator. Ends the gathering of a next stage that will not be bound: a
  /// step is given up, and its memory may go.
  void drop_next() { gatherer_.drop_next(); }

  /// Collective over the binder's communicator. The rows of the embedding that these ids (int64) need, if
  /// they are to travel instead of the table.
  [[nodiscard]] std::optional<RowExchange> embedding_rows(std::span<const at::Tensor> ids) const;

  [[nodiscard]] Communicator& comm() const { return comm_; }
  [[nodiscard]] const ShardArena& weights() const { return weights_; }
  [[nodiscard]] const StagePlan& stages() const { return stages_; }
  [[nodiscard]] ParameterViews& views() { return views_; }
  [[nodiscard]] PhaseTimer& timer() { return timer_; }
  [[nodiscard]] const RankMesh& mesh() const { return mesh_; }
  [[nodiscard]] ExpertExchange& exchange() { return exchange_; }

 private:
  Communicator& comm_;
  const ShardArena& weights_;
  const ShardPlan& plan_;
  RankMesh mesh_;
  StagePlan stages_;
  ParameterViews views_;
  UnitGatherer gatherer_;
  PhaseTimer timer_;
  ExpertExchange exchange_;
};

}  // namespace sluice
