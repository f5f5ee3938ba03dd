// Memory of answering prompts, besides the forward pass of the newest tokens. Pure.
#pragma once

#include "model/model_config.hpp"
#include "plan/workload.hpp"

#include <cstdint>

namespace sluice {

/// Number of sequences that a rank has at once, of `sequences` over `world` ranks.
[[nodiscard]] std::int64_t answer_slots(std::int64_t sequences, int world);

/// Bytes that answering prompts takes on one rank.
struct AnswerMemory {
  std::int64_t cache = 0;        ///< bytes that SequenceCache allocates, exactly
  std::int64_t activations = 0;  ///< bytes besides the model's forward pass: logits, and states in flight
};

/// Bytes that answering prompts takes, on the rank that needs the most.
[[nodiscard]] AnswerMemory plan_answers(const ModelConfig& model, const Workload::Answers& answers, int world,
                                        DType dtype);

}  // namespace sluice
