#include "ops/experts/expert_products.hpp"

#include "base/trace/recorder.hpp"
#include "ops/matmul.hpp"
#include "ops/runtime/processor.hpp"

#include <cstdint>

namespace sluice::ops {
namespace {

/// Records a product with a matrix of `fused` as long as it lives.
class ProductSpan : trace::Span {
 public:
  explicit ProductSpan(const Parameter& fused)
      : Span(trace::Kind::kOperation, "expert product", {fused.value.size(1), fused.value.size(2)}) {}
};

std::int64_t expert_of(const RowBlock& block) { return block.parts.front().expert; }

}  // namespace

void multiply_by_experts(const Weight& fused, const RowBlock& block, const at::Tensor& inputs,
                         const at::Tensor& out, Uses uses) {
  const ProductSpan span(fused.base);
  if (block.ends.defined())
    device::multiply_groups(out, inputs, block, fused.base.value.transpose(1, 2));
  else if (block.parts.size() > 1)
    matmul_transposed(out, inputs, fused.base, block.parts);
  else
    matmul_transposed(out, inputs, fused.base, expert_of(block), uses);
  if (!fused.lora) return;
  for (const ExpertPart& part : block.parts)
    LoraProduct(*fused.lora, part.expert).add_to(block.rows_of(out, part), block.rows_of(inputs, part));
}

ExpertOutputGradient::ExpertOutputGradient(const Weight& fused, const RowBlock& block,
                                           const at::Tensor& d_out)
    : fused_(fused), block_(block), d_out_(d_out) {
  if (!fused.lora) return;
  for (const ExpertPart& part : block.parts)
    d_reduced_.push_back(lora_of(part).reduced_gradient(block.rows_of(d_out, part)));
}

void ExpertOutputGradient::multiply(const at::Tensor& d_inputs) const {
  const ProductSpan span(fused_.base);
  if (block_.ends.defined())
    device::multiply_groups(d_inputs, d_out_, block_, fused_.base.value);
  else
    ops::matmul(d_inputs, d_out_, matrix_of(fused_.base, expert_of(block_)));
  for (std::size_t i = 0; i < d_reduced_.size(); ++i)
    lora_of(block_.parts[i]).add_input_gradient(d_reduced_[i], block_.rows_of(d_inputs, block_.parts[i]));
}

void ExpertOutputGradient::accumulate(std::size_t part, const at::Tensor& all_inputs) const {
  const ProductSpan span(fused_.base);
  const ExpertPart& of = block_.parts[part];
  const Parameter& base = fused_.base;
  const at::Tensor d_out = block_.rows_of(d_out_, of), inputs = block_.rows_of(all_inputs, of);
  if (base.grad.defined())
    ops::matmul(base.grad[of.expert], d_out.t(), inputs, into_gradient(base, of.expert));
  if (fused_.lora) lora_of(of).accumulate_gradients(inputs, d_out, d_reduced_[part]);
}

void add_expert_biases(const Parameter& biases, const RowBlock& block, const at::Tensor& rows) {
  if (biases.value.defined()) on::add_biases(rows, block, biases.value);
}

void bring_expert_bias_gradient(const Parameter& biases, const RowBlock& block, const ExpertPart& part,
                                const at::Tensor& d_rows, const at::Tensor& weights) {
  if (!biases.grad.defined()) return;
  const at::Tensor d_bias = biases.grad[part.expert];
  if (!adds_to_gradient(biases, part.expert)) d_bias.zero_();
  on::bias_gradient(d_rows, block, part, weights, d_bias);
}

}  // namespace sluice::ops
