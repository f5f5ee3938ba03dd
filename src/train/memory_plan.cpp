#include "train/memory_plan.hpp"

#include "data/sampler.hpp"
#include "train/adamw.hpp"

#include <algorithm>

namespace sluice {
namespace {

// Elements that one token's graph of one layer keeps or passes through, in the training element type. Counted
// from the blocks: inputs and outputs of every operation.

std::int64_t attention_elements(const ModelConfig& model) {
  const std::int64_t queries = model.attention_heads * model.head_dim;
  const std::int64_t keys = model.key_value_heads * model.head_dim;
  const std::int64_t gate = model.attention_output_gate ? 4 * queries : 0;
  return 4 * model.hidden_size + 4 * queries + 5 * keys + gate;
}

std::int64_t delta_net_elements(const ModelConfig& model) {
  const LinearAttentionConfig& linear = model.linear_attention;
  const std::int64_t values = linear.value_heads * linear.value_head_dim;
  const std::int64_t mixed = 2 * linear.key_heads * linear.key_head_dim + values;
  return 4 * model.hidden_size + 4 * mixed + 6 * values + 8 * linear.value_heads;
}

std::int64_t mlp_elements(const ModelConfig& model, MlpKind kind) {
  if (kind == MlpKind::kDense) return 4 * model.intermediate_size + 2 * model.hidden_size;
  const std::int64_t shared = model.shared_expert_intermediate_size;
  return model.experts_per_token * (4 * model.expert_intermediate_size + 2 * model.hidden_size) +
         4 * model.hidden_size + 2 * model.experts + (shared > 0 ? 4 * shared + 3 * model.hidden_size : 0);
}

/// Of the layer that takes most.
std::int64_t live_elements_per_token(const ModelConfig& model) {
  std::int64_t most = 0;
  for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
    const bool is_full = model.attention[layer] == AttentionKind::kFull;
    most = std::max(most, (is_full ? attention_elements(model) : delta_net_elements(model)) +
                              mlp_elements(model, model.layers[layer]));
  }
  return most;
}

/// What mixing the tokens of a sequence takes besides, in float32: a block of scores and its gradient, or the
/// states before each chunk and one chunk's graph. Chunk and block sizes are those of the operations.
std::int64_t mixing_bytes(const ModelConfig& model, std::int64_t sequences, std::int64_t length) {
  constexpr std::int64_t kChunk = 64;
  constexpr std::int64_t kBlock = 128;
  const std::int64_t group = model.attention_heads / model.key_value_heads;
  const std::int64_t scores = 3 * kBlock * group * length;
  const LinearAttentionConfig& linear = model.linear_attention;
  const std::int64_t state = linear.key_head_dim * linear.value_head_dim;
  const std::int64_t graph =
      8 * kChunk * kChunk + 12 * kChunk * (linear.key_head_dim + linear.value_head_dim) + 4 * state;
  const std::int64_t chunks = (length + kChunk - 1) / kChunk;
  return std::max(scores, sequences * linear.value_heads * (chunks * state + graph)) *
         size_of(DType::kFloat32);
}

constexpr std::int64_t kLogitTile = 16 * kMiB;

/// Without a graph: a micro-batch of one layer, and what every token carries from layer to layer.
std::int64_t forward_bytes(const ModelConfig& model, const JobConfig& job, std::int64_t sequences) {
  const std::int64_t length = job.data.sequence_length;
  const std::int64_t size = size_of(job.model.dtype);
  const std::int64_t micro_sequences = std::min(sequences, job.train.micro_batch_sequences);
  return sequences * length * model.hidden_size * size +
         micro_sequences * length * live_elements_per_token(model) * size +
         mixing_bytes(model, micro_sequences, length) + kLogitTile;
}

std::int64_t training_bytes(const ModelConfig& model, const JobConfig& job, std::int64_t sequences) {
  const std::int64_t length = job.data.sequence_length;
  const std::int64_t size = size_of(job.model.dtype);
  const std::int64_t tokens = sequences * length;
  const std::int64_t micro_sequences = std::min(sequences, job.train.micro_batch_sequences);
  const std::int64_t micro_tokens = micro_sequences * length;
  const std::int64_t live = live_elements_per_token(model) * size;
  const std::int64_t choices = model.moe_layer_count() * model.experts_per_token * 8;
  const std::int64_t inputs = (model.layer_count() + 2) * model.hidden_size * size;
  const std::int64_t mixing = mixing_bytes(model, micro_sequences, length);
  constexpr std::int64_t kLogitTiles = 2 * kLogitTile;
  if (job.train.recompute == Recompute::kNone)
    return tokens * (inputs + choices + model.layer_count() * live) + micro_tokens * live + mixing +
           kLogitTiles;
  // Twice: a recomputed layer's activations and their gradients are there together.
  return tokens * (inputs + choices) + 2 * micro_tokens * live + mixing + kLogitTiles;
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
  const bool trains = job.job.kind == JobKind::kTrain;
  const bool computes = trains || job.job.kind == JobKind::kEvaluate;
  std::vector<RankMemory> ranks;
  for (int rank = 0; rank < plan.world(); ++rank) {
    RankMemory& memory = ranks.emplace_back();
    const std::int64_t elements = plan.arena_elements(rank);
    memory.weights = elements * size;
    if (job.model.init == ModelInit::kCheckpoint) memory.staging = ring_slots * job.load.chunk_bytes;
    if (!computes) continue;
    const std::int64_t sequences = rank_share(job.train.batch_sequences, plan.world(), rank).size();
    memory.gather_buffers = sum(stages.slot_elements(plan, rank)) * size;
    memory.activations =
        trains ? training_bytes(model, job, sequences) : forward_bytes(model, job, sequences);
    if (!trains) continue;
    memory.gradients = elements * size_of(DType::kFloat32);
    memory.optimizer = elements * AdamW::bytes_per_element(job.model.dtype);
    memory.gradient_buffer = stages.largest_stage_elements(plan, rank) * size_of(DType::kFloat32);
  }
  return ranks;
}

}  // namespace sluice
