#include "plan/answer_memory.hpp"

#include "base/round.hpp"
#include "model/blocks/layer_blocks.hpp"

#include <algorithm>

namespace sluice {

std::int64_t answer_slots(std::int64_t sequences, int world) {
  return divide_up(sequences, std::int64_t{world});
}

AnswerMemory plan_answers(const ModelConfig& model, const Workload::Answers& answers, int world,
                          DType dtype) {
  // Bytes per logit: logits in the dtype and in float32, and for one sequence the copies, powers and order by
  // which a token is chosen.
  constexpr std::int64_t kChoiceBytes = 32;
  // Copies of a layer's states: as taken from the cache, as changed, and between.
  constexpr std::int64_t kStateCopies = 4;
  // Copies of the queries in a long prompt's pass, which has rows for all earlier tokens, and of attention's
  // results.
  constexpr std::int64_t kQueryCopies = 3;
  const std::int64_t slots = answer_slots(answers.sequences, world);
  AnswerMemory memory;
  std::int64_t largest_state = 0, most_queries = 0;
  for (int layer = 0; layer < model.layer_count(); ++layer) {
    const BlockCache cache = layer_cache(model, layer, size_of(dtype));
    memory.cache += slots * (answers.positions * cache.position_bytes + cache.sequence_bytes);
    largest_state = std::max(largest_state, cache.sequence_bytes);
    const ModelConfig own = model.of_layer(layer);
    most_queries = std::max(most_queries, own.attention_heads * own.padded_head_dim());
  }
  memory.activations =
      slots * (model.vocab_size * 2 * size_of(DType::kFloat32) + kStateCopies * largest_state) +
      model.vocab_size * kChoiceBytes + kQueryCopies * answers.positions * most_queries * size_of(dtype);
  return memory;
}

}  // namespace sluice
