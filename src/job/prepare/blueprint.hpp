// A job before anything is allocated: its settings, its model, and which rank will own which parameters.
// Pure but for reading config.json.
#pragma once

#include "adapter/peft_adapter.hpp"
#include "comm/agreement/agreement.hpp"
#include "config/job_config.hpp"
#include "manifest/key_map.hpp"
#include "model/architecture.hpp"
#include "plan/memory_plan.hpp"
#include "plan/step_traffic.hpp"
#include "shard/shard_plan.hpp"
#include "shard/stage_plan.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace sluice {

/// The model that a job computes with. Its parts refer to each other, so it cannot be moved.
struct DescribedModel {
  explicit DescribedModel(const JobConfig& config);
  DescribedModel(const DescribedModel&) = delete;
  DescribedModel& operator=(const DescribedModel&) = delete;

  const std::optional<PeftAdapter> adapter;
  const ModelDescription model;
  const KeyMap keys;
};

/// Blueprint of a job. Its parts refer to each other, so it cannot be moved.
class Blueprint {
 public:
  /// Describes the model of `config` from its config.json, with saved steps in place of runs. Errors as
  /// with_saved_sources(), describe_model(), with the key model.path, and as read_adapter(),
  /// described_adapters() and freeze_parameters().
  /// `stored`: the tensors of model.path that shards keep as they were published (stored_weights()).
  explicit Blueprint(JobConfig config, StoredTensors stored = {});
  /// The blueprint of `other`'s model for a `changed` job. Describes the model anew only if the job's kind has changed;
  /// of the keys that a description depends on, no other may have.
  Blueprint(const Blueprint& other, const JobConfig& changed, StoredTensors stored);
  Blueprint(const Blueprint&) = delete;
  Blueprint& operator=(const Blueprint&) = delete;

  const JobConfig config;
  const std::shared_ptr<const DescribedModel> description;  ///< shared by blueprints of one model
  /// adapter whose values the adapters of `model` have; nothing if they start anew
  const std::optional<PeftAdapter>& adapter = description->adapter;
  const ModelDescription& model = description->model;
  const KeyMap& keys = description->keys;
  const StoredTensors stored;
  const UnitLayouts layouts;
  const StagePlan stages;

  /// Plan that divides `ranks` ranks into sets for the copies of the model, and the units among those of a set.
  /// Refers to this blueprint. Errors as ShardPlan; Error(kBadConfig) if copies do not divide the ranks.
  [[nodiscard]] ShardPlan shard_plan(int ranks) const;

  /// Bytes of the shards of weights of each rank of a set, stored ones included.
  [[nodiscard]] std::vector<std::int64_t> shard_bytes(const ShardPlan& plan) const;

  /// Memory of each rank of a plan, see plan_memory().
  [[nodiscard]] std::vector<RankMemory> memory_plan(const ShardPlan& plan, Workload work,
                                                    std::span<const std::int64_t> staging_bytes) const {
    work.drops_inputs = work.trains && model.adapters.dropout > 0;
    return plan_memory(model.config, model.manifest, plan, stages, work, staging_bytes, stored);
  }

  /// Bytes that each rank of a plan sends in a step, see plan_step_traffic().
  [[nodiscard]] std::vector<StepTraffic> step_traffic(const ShardPlan& plan, const Workload& work,
                                                      const ExpertShares& shares) const {
    return plan_step_traffic(model.config, model.manifest, plan, stages, work, stored, shares);
  }

  /// Bytes that a set of a plan sends for embedding and head, see vocabulary_traffic().
  [[nodiscard]] std::int64_t vocabulary_traffic(const ShardPlan& plan, const Workload& work) const {
    return sluice::vocabulary_traffic(model.config, model.manifest, plan, stages, work);
  }

 private:
  Blueprint(JobConfig config, std::shared_ptr<const DescribedModel> known, StoredTensors stored);
};

/// Topics that all ranks must agree on: program, job keys, model settings, tensors.
[[nodiscard]] std::vector<AgreementTopic> agreement_topics(const Blueprint& blueprint);

}  // namespace sluice
