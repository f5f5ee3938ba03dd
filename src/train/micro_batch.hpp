// The part of a batch that a rank computes at once.
#pragma once

#include "data/batch.hpp"
#include "ops/documents.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace sluice {

struct MicroBatch {
  at::Tensor inputs;   ///< [b, L] int64
  at::Tensor targets;  ///< [b, L] int64, ops::kNoTarget where the next token begins a document
  ops::Documents documents{};
  at::Tensor counted{};  ///< [b x L] bool: tokens that are no padding; undefined if all are
};

/// Token ids of each, [b, L].
template <class MicroBatches>
[[nodiscard]] std::vector<at::Tensor> inputs_of(const MicroBatches& micro_batches) {
  std::vector<at::Tensor> inputs;
  for (const MicroBatch& micro_batch : micro_batches) inputs.push_back(micro_batch.inputs);
  return inputs;
}

/// Cuts a batch into pieces of at most `sequences`; none for an empty batch.
[[nodiscard]] std::vector<MicroBatch> split_batch(const Batch& batch, std::int64_t sequences);

}  // namespace sluice
