// Products of a LoRA adapter, forward and backward. Internal to src/ops.
#pragma once

#include "ops/adapters/lora.hpp"
#include "ops/runtime/node.hpp"

#include <cstdint>
#include <string>

namespace sluice::ops {

/// Random draws of dropout in a pass: element i of row t has draw number (first_row + t) * width + i of the
/// stream of `key`.
struct DropoutDraw {
  double rate = 0;
  std::uint64_t key = 0;
  std::int64_t first_row = 0;

  [[nodiscard]] bool drops() const { return rate > 0; }
};

/// Draws of dropout for a pass through this adapter in the current step.
[[nodiscard]] DropoutDraw dropout_draw(const Lora& lora);

/// Dropout of x [n, width]: drawn elements become 0, others are divided by 1 - rate; x itself if nothing is
/// dropped.
[[nodiscard]] at::Tensor with_dropout(const at::Tensor& x, const DropoutDraw& draw);

/// LoRA adapter of one matrix, or of one of fused experts. Rows have the dtype of the weights. `x` are inputs
/// after dropout.
class LoraProduct {
 public:
  explicit LoraProduct(const Lora& lora, std::int64_t expert = -1);

  /// Product with A: scale * x A^T, [n, rank].
  [[nodiscard]] at::Tensor reduced(const at::Tensor& x) const;
  /// Gradient of the product with A: scale * d_y B, [n, rank].
  [[nodiscard]] at::Tensor reduced_gradient(const at::Tensor& d_y) const;

  /// Adds the adapter's product: y [n, out] += scale * x A^T B^T.
  void add_to(const at::Tensor& y, const at::Tensor& x) const;
  /// Adds to the gradients of A and B, from the gradient d_y of the product. `d_reduced` is
  /// reduced_gradient(d_y), here and below.
  void accumulate_gradients(const at::Tensor& x, const at::Tensor& d_y, const at::Tensor& d_reduced) const;
  /// Adds the adapter's part of the gradient: d_x [n, in] += d_reduced A.
  void add_input_gradient(const at::Tensor& d_reduced, const at::Tensor& d_x) const;

 private:
  [[nodiscard]] at::Tensor matrix(const at::Tensor& whole) const {
    return expert_ < 0 ? whole : whole[expert_];
  }
  void accumulate(const Parameter& to, const at::Tensor& d_out, const at::Tensor& inputs) const;

  const Lora& lora_;
  std::int64_t expert_;
};

namespace node {

/// keep() and kept() for a weight with its adapter, as those of a Parameter.
void keep(AutogradContext* context, const std::string& name, const Weight& weight);
[[nodiscard]] Weight kept_weight(AutogradContext* context, const std::string& name);

void keep(AutogradContext* context, const std::string& name, const DropoutDraw& draw);
[[nodiscard]] DropoutDraw kept_draw(AutogradContext* context, const std::string& name);

}  // namespace node

}  // namespace sluice::ops
