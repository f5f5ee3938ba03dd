// Bytes that each rank sends to others in a step, worked out before anything is sent. Pure.
#pragma once

#include "manifest/manifest.hpp"
#include "model/model_config.hpp"
#include "plan/workload.hpp"
#include "shard/shard_plan.hpp"
#include "shard/stage_plan.hpp"
#include "shard/stored/stored_tensors.hpp"

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// Bytes that one rank sends to other ranks in one step of a training, or in one pass over a batch of a job that
/// evaluates; a collective counts what this rank sends to each of the others.
struct StepTraffic {
  std::int64_t dense_weights = 0;  ///< bytes of this rank's shards of gathered dense units, or of their codes
  std::int64_t dense_gradients = 0;   ///< bytes of gradients of dense units
  std::int64_t vocabulary = 0;        ///< bytes of embedding rows, of the head, and of gradients of both
  std::int64_t expert_weights = 0;    ///< bytes of this rank's shards of gathered experts, or of their codes
  std::int64_t expert_gradients = 0;  ///< bytes of gradients of gathered experts
  std::int64_t tokens = 0;            ///< bytes of tokens on their way to experts, and of what comes back
  std::int64_t batch = 0;             ///< bytes of the token ids that rank 0 hands out
  std::int64_t other = 0;             ///< bytes of sums over ranks

  /// Bytes for all purposes together.
  [[nodiscard]] std::int64_t all() const;
  /// Bytes of every purpose with its name, for tables and JSON.
  [[nodiscard]] std::array<std::pair<std::string_view, std::int64_t>, 8> parts() const;
};

/// Share of a MoE layer's choices that each of its experts gets, [MoE layer][expert], each layer's with sum 1; empty:
/// all experts get as many.
using ExpertShares = std::vector<std::vector<double>>;

/// Bytes that each rank of `plan` sends in a step after the first, in which units that are kept are not sent again;
/// zeros for a job that runs no batches. Exact for weights and gradients, and for tokens in groups that all-gather
/// them. In a larger group a token goes to a rank with e of E experts with the probability 1 - C(E - e, k) / C(E, k),
/// or by `shares` 1 - (1 - s)^k if they get the share s of the choices. Rows of the embedding are those of tokens
/// drawn evenly from the vocabulary; text has fewer distinct ones.
[[nodiscard]] std::vector<StepTraffic> plan_step_traffic(const ModelConfig& model,
                                                         const ParameterManifest& manifest,
                                                         const ShardPlan& plan, const StagePlan& stages,
                                                         const Workload& work, const StoredTensors& stored,
                                                         const ExpertShares& shares = {});

/// Bytes that the ranks of one set send to each other for embedding and head: in a step, or for jobs that answer
/// prompts for one more token of each sequence.
[[nodiscard]] std::int64_t vocabulary_traffic(const ModelConfig& model, const ParameterManifest& manifest,
                                              const ShardPlan& plan, const StagePlan& stages,
                                              const Workload& work);

}  // namespace sluice
