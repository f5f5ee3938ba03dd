#include "train/memory_plan.hpp"

#include "data/sampler.hpp"
#include "train/adamw.hpp"

#include <algorithm>

namespace sluice {
namespace {

/// Elements that one token's graph of one layer keeps or passes through, in the training element type.
/// Counted from the blocks: inputs and outputs of every operation.
std::int64_t live_elements_per_token(const ModelConfig& model, std::int64_t length) {
  const std::int64_t queries = model.attention_heads * model.head_dim;
  const std::int64_t keys = model.key_value_heads * model.head_dim;
  const std::int64_t attention =
      4 * model.hidden_size + 4 * queries + 5 * keys + model.attention_heads * length;
  const std::int64_t dense = 4 * model.intermediate_size + 2 * model.hidden_size;
  const std::int64_t moe =
      model.experts_per_token * (4 * model.expert_intermediate_size + 2 * model.hidden_size) +
      4 * model.hidden_size + 2 * model.experts;
  const bool has_dense = model.moe_layer_count() < model.layer_count();
  return attention + std::max(has_dense ? dense : 0, model.moe_layer_count() > 0 ? moe : 0);
}

std::int64_t activation_bytes(const ModelConfig& model, const JobConfig& job, std::int64_t sequences) {
  const std::int64_t length = job.data.sequence_length;
  const std::int64_t size = size_of(job.model.dtype);
  const std::int64_t tokens = sequences * length;
  const std::int64_t micro_tokens = std::min(sequences, job.train.micro_batch_sequences) * length;
  const std::int64_t live = live_elements_per_token(model, length) * size;
  const std::int64_t choices = model.moe_layer_count() * model.experts_per_token * 8;
  const std::int64_t inputs = (model.layer_count() + 2) * model.hidden_size * size;
  const std::int64_t softmax = 2 * model.attention_heads * length * length * size_of(DType::kFloat32);
  constexpr std::int64_t kLogitTiles = 2 * 16 * kMiB;
  if (job.train.recompute == Recompute::kNone)
    return tokens * (inputs + choices + model.layer_count() * live) + micro_tokens * live + softmax +
           kLogitTiles;
  // Twice: a recomputed layer's activations and their gradients are there together.
  return tokens * (inputs + choices) + 2 * micro_tokens * live + softmax + kLogitTiles;
}

std::int64_t sum(const std::vector<std::int64_t>& elements) {
  std::int64_t total = 0;
  for (const std::int64_t count : elements) total += count;
  return total;
}

}  // namespace

std::array<std::pair<std::string_view, std::int64_t>, 7> RankMemory::parts() const {
  return {{{"weights", weights},
           {"gradients", gradients},
           {"optimizer", optimizer},
           {"gather_buffers", gather_buffers},
           {"gradient_buffer", gradient_buffer},
           {"activations", activations},
           {"staging", staging}}};
}

std::vector<RankMemory> plan_memory(const ModelConfig& model, const ShardPlan& plan, const StagePlan& stages,
                                    const JobConfig& job, int ring_slots) {
  const std::int64_t size = size_of(job.model.dtype);
  const bool whole_units = plan.world() > 1;
  std::vector<RankMemory> ranks;
  for (int rank = 0; rank < plan.world(); ++rank) {
    RankMemory memory;
    const std::int64_t elements = plan.arena_elements(rank);
    memory.weights = elements * size;
    memory.gradients = elements * size_of(DType::kFloat32);
    memory.optimizer = elements * AdamW::bytes_per_element(job.model.dtype);
    if (whole_units) {
      memory.gather_buffers = sum(stages.slot_elements(plan.layouts())) * size;
      memory.gradient_buffer = stages.largest_stage_elements(plan.layouts()) * size_of(DType::kFloat32);
    }
    const SequenceRange share = rank_share(job.train.batch_sequences, plan.world(), rank);
    memory.activations = activation_bytes(model, job, share.size());
    if (job.model.init == ModelInit::kCheckpoint) memory.staging = ring_slots * job.load.chunk_bytes;
    ranks.push_back(memory);
  }
  return ranks;
}

}  // namespace sluice
