// Micro-batch: the sequences of a batch that a rank computes at once.
#pragma once

#include "config/job_config.hpp"
#include "data/batch.hpp"
#include "ops/documents.hpp"
#include "ops/token_distribution.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace sluice {

struct MicroBatch {
  at::Tensor inputs;   ///< input tokens, [b, L] int64
  at::Tensor targets;  ///< target tokens, [b, L] int64; ops::kNoTarget where the next token begins a document
  ops::Documents documents{};
  at::Tensor counted{};  ///< tokens that are not padding, [b x L] bool; undefined: none is padding
  at::Tensor places{};   ///< Batch::places of the targets, [b x L] int64; undefined: the batch has none
  /// The teacher's distributions of the targets, of b x L tokens, to be learnt with the weight 1; nothing without one.
  std::optional<ops::TeacherTokens> teacher{};
};

/// Token ids [b, L] of each micro-batch.
template <class MicroBatches>
[[nodiscard]] std::vector<at::Tensor> inputs_of(const MicroBatches& micro_batches) {
  std::vector<at::Tensor> inputs;
  for (const MicroBatch& micro_batch : micro_batches) inputs.push_back(micro_batch.inputs);
  return inputs;
}

/// Whether masked tokens in the documents of chosen answers are targets all the same.
enum class ChosenPrompts : std::uint8_t { kMasked, kLearnt };
[[nodiscard]] inline ChosenPrompts chosen_prompts(const PreferSettings& settings) {
  return settings.learns_chosen_documents() ? ChosenPrompts::kLearnt : ChosenPrompts::kMasked;
}

/// Cuts a batch into micro-batches of at most `sequences` sequences, on `device`; an empty batch gives none.
[[nodiscard]] std::vector<MicroBatch> split_batch(const Batch& batch, std::int64_t sequences,
                                                  at::Device device,
                                                  ChosenPrompts prompts = ChosenPrompts::kMasked);

}  // namespace sluice
