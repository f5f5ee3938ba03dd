// Memory of prompts that are answered, besides the pass of their newest tokens. Pure.
#pragma once

#include "model/model_config.hpp"
#include "plan/workload.hpp"

#include <cstdint>

namespace sluice {

/// Sequences that a rank has at once, of so many over `world` ranks.
[[nodiscard]] std::int64_t answer_slots(std::int64_t sequences, int world);

/// Bytes of one rank.
struct AnswerMemory {
  std::int64_t cache = 0;        ///< bytes that SequenceCache allocates, exactly
  std::int64_t activations = 0;  ///< bytes above the model: logits, and states in flight
};

/// Bytes that answering prompts takes on the rank that needs most.
[[nodiscard]] AnswerMemory plan_answers(const ModelConfig& model, const Workload::Answers& answers, int world,
                                        DType dtype);

}  // namespace sluice
