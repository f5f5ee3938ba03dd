// Products of a block of rows with the matrices of the experts that the rows belong to, forward and backward.
// Internal to src/ops.
#pragma once

#include "ops/adapters/lora.hpp"
#include "ops/adapters/lora_product.hpp"
#include "ops/experts/stored_products.hpp"
#include "ops/parameter.hpp"
#include "ops/runtime/processor_types.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace sluice::ops {

/// out [rows, n] = inputs [rows, k] times transposed matrices: each row of a block times the transpose of its
/// expert's matrix, in `fused` [experts, n, k], plus the product of a LoRA adapter.
void multiply_by_experts(const Weight& fused, const RowBlock& block, const at::Tensor& inputs,
                         const at::Tensor& out, Uses uses);

/// Gradient [rows, n] of a block's outputs, as it is taken back through the matrices of the block's experts.
/// Weight and block must outlive it.
class ExpertOutputGradient {
 public:
  ExpertOutputGradient(const Weight& fused, const RowBlock& block, const at::Tensor& d_out);

  /// d_inputs [rows, k] = d_out times the matrices. d_inputs may lie in the memory of the inputs.
  void multiply(const at::Tensor& d_inputs) const;

  /// Adds d_out^T inputs of part number `part` of the block to the gradient of its matrix, or to the
  /// gradients of its adapter.
  void accumulate(std::size_t part, const at::Tensor& all_inputs) const;

 private:
  [[nodiscard]] LoraProduct lora_of(const ExpertPart& part) const {
    return LoraProduct(*fused_.lora, part.expert);
  }

  const Weight& fused_;
  const RowBlock& block_;
  at::Tensor d_out_;
  std::vector<at::Tensor> d_reduced_{};  ///< gradient of each part's product with A of the adapter
};

/// Adds to each row of a block [rows, n] the bias of its expert, from biases [experts, n], if they are
/// defined.
void add_expert_biases(const Parameter& biases, const RowBlock& block, const at::Tensor& rows);

/// Adds the gradient d_rows [rows, n] of a block's rows, each multiplied by its weight if `weights` [N, k] is
/// defined, to the gradient of a part's bias.
void bring_expert_bias_gradient(const Parameter& biases, const RowBlock& block, const ExpertPart& part,
                                const at::Tensor& d_rows, const at::Tensor& weights);

}  // namespace sluice::ops
