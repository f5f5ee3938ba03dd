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
#include "train/shared_vocabulary.hpp"

#include <optional>
#include <span>

namespace sluice {

class StageBinder {
 public:
  /// Collective over `comm`, which carries the memory that is computed in. Allocates the gather slots.
  /// `experts` as in ParameterViews. All references must outlive the binder.
  StageBinder(Communicator& comm, const ModelConfig& model, const ParameterManifest& manifest,
              const ShardArena& weights, ExpertGradients experts = ExpertGradients::kTogether);

  /// A stage's units, gathered and bound to the views for the lifetime of the object. Messages in flight
  /// progress while this thread computes with the units.
  class GatheredStage {
   public:
    /// Collective over the binder's communicator. `next`, if not null, is the stage that will be bound next,
    /// with unchanged weights: its dense units are gathered meanwhile. `rows`, if not null: only these rows
    /// of the embedding are filled in.
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

  /// Begins a pass: says what the following stages are bound for.
  void begin_pass(ArenaPass pass) { sluice::begin_pass(weights_, pass); }

  /// Collective over the binder's communicator. Completes the gathering of a next stage that will not be
  /// bound because its step was given up; its memory may be freed afterwards.
  void drop_next() { gatherer_.drop_next(); }

  /// Collective over the binder's communicator. The exchange of the embedding's rows for these token ids
  /// (int64), if it is cheaper than gathering the table, or ranks never gather it.
  [[nodiscard]] std::optional<RowExchange> embedding_rows(std::span<const at::Tensor> ids) const;

  /// Collective over the binder's communicator. Rows of the embedding [rows.rows(), hidden].
  [[nodiscard]] at::Tensor fetched(const RowExchange& rows);

  [[nodiscard]] Communicator& comm() const { return comm_; }
  [[nodiscard]] const ShardArena& weights() const { return weights_; }
  [[nodiscard]] const StagePlan& stages() const { return stages_; }
  [[nodiscard]] ParameterViews& views() { return views_; }
  [[nodiscard]] PhaseTimer& timer() { return timer_; }
  [[nodiscard]] const RankMesh& mesh() const { return mesh_; }
  [[nodiscard]] ExpertExchange& exchange() { return exchange_; }
  /// The exchange for embedding and head by rows; null if ranks gather them.
  [[nodiscard]] SharedVocabulary* vocabulary() { return vocabulary_ ? &*vocabulary_ : nullptr; }

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
  std::optional<SharedVocabulary> vocabulary_;
};

}  // namespace sluice
