// Tokens sorted by the experts they chose, and the loops that take rows to an expert and back. Internal to
// src/ops.
#pragma once

#include "base/range.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace sluice::ops::cpu {

/// Rows that one expert works on at a time.
struct RowBlock {
  std::int64_t expert = 0;              ///< among those of this rank
  const std::int32_t* slots = nullptr;  ///< slot of each row: token * k + choice; in the order of tokens
  std::int64_t count = 0;               ///< rows with a slot
  std::int64_t padded = 0;              ///< rows of the matrices, those beyond count being zeros
};

/// One row for each token and choice among this rank's experts, sorted by expert, then by token; in blocks of
/// kExpertBlockRows at most, whatever the router chooses: what is alive at a time does not depend on it.
class ExpertRows {
 public:
  /// chosen [N, k] int32 among all experts; of interest are [first_expert, first_expert + experts), and the
  /// tokens of these ranges, in their order.
  ExpertRows(const at::Tensor& chosen, std::int64_t first_expert, std::int64_t experts,
             std::span<const Range> tokens);

  [[nodiscard]] const std::vector<RowBlock>& blocks() const { return blocks_; }
  [[nodiscard]] std::int64_t count() const { return std::ssize(slots_); }
  /// Rows of the largest block.
  [[nodiscard]] std::int64_t largest_block() const;

 private:
  std::vector<std::int32_t> slots_;
  std::vector<RowBlock> blocks_;
};

/// out [padded, H] = the block's rows of the tokens x [N, H].
void take_rows(const at::Tensor& x, const RowBlock& block, std::int64_t choices, const at::Tensor& out);

/// sums [N, H] float32 += rows [padded, H], each times its choice's weight of weights [N, k], rounded to the
/// dtype of the rows; without weights (an undefined tensor) times 1.
void add_rows(const at::Tensor& rows, const RowBlock& block, std::int64_t choices, const at::Tensor& weights,
              const at::Tensor& sums);

/// Backward of `weight * (silu(gate) * up)` with a weight of weights [N, k] for each row, in one pass and in
/// place: gate and up [padded, I] become their gradients, and `d_activation`, the gradient of the weighted
/// value, becomes that value. Writes the gradients of the weights to d_weights [N, k].
void weighted_swiglu_backward(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& d_activation,
                              const RowBlock& block, const at::Tensor& weights, const at::Tensor& d_weights);

}  // namespace sluice::ops::cpu
