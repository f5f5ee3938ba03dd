#include "ops/adapters/lora_product.hpp"

#include "base/random.hpp"
#include "ops/matmul.hpp"
#include "ops/runtime/processor.hpp"

#include <ATen/ops/empty_like.h>

#include <algorithm>

namespace sluice::ops {

DropoutDraw dropout_draw(const Lora& lora) {
  if (lora.dropout == nullptr || lora.dropout->rate == 0) return {};
  const Dropout& dropout = *lora.dropout;
  const std::uint64_t of_step =
      RandomStream(dropout.seed, "dropout").bits(static_cast<std::uint64_t>(dropout.step));
  return {dropout.rate, RandomStream(of_step, "adapter").bits(static_cast<std::uint64_t>(lora.stream)),
          dropout.first_token};
}

at::Tensor with_dropout(const at::Tensor& x, const DropoutDraw& draw) {
  if (!draw.drops()) return x;
  at::Tensor out = at::empty_like(x);
  on::dropout_rows(x, draw.rate, RandomStream(draw.key, "elements"), draw.first_row, out);
  return out;
}

LoraProduct::LoraProduct(const Lora& lora, std::int64_t expert) : lora_(lora), expert_(expert) {}

at::Tensor LoraProduct::reduced(const at::Tensor& x) const {
  return ops::matmul(x, matrix(lora_.a.value).t()).mul_(lora_.scale);
}

at::Tensor LoraProduct::reduced_gradient(const at::Tensor& d_y) const {
  return ops::matmul(d_y, matrix(lora_.b.value)).mul_(lora_.scale);
}

void LoraProduct::add_to(const at::Tensor& y, const at::Tensor& x) const {
  ops::matmul(y, reduced(x), matrix(lora_.b.value).t(), Into::kAdd);
}

void LoraProduct::accumulate(const Parameter& to, const at::Tensor& d_out, const at::Tensor& inputs) const {
  if (to.grad.defined())
    ops::matmul(matrix(to.grad), d_out.t(), inputs, into_gradient(to, std::max<std::int64_t>(expert_, 0)));
}

void LoraProduct::accumulate_gradients(const at::Tensor& x, const at::Tensor& d_y,
                                       const at::Tensor& d_reduced) const {
  accumulate(lora_.b, d_y, reduced(x));
  accumulate(lora_.a, d_reduced, x);
}

void LoraProduct::add_input_gradient(const at::Tensor& d_reduced, const at::Tensor& d_x) const {
  ops::matmul(d_x, d_reduced, matrix(lora_.a.value), Into::kAdd);
}

namespace node {

void keep(AutogradContext* context, const std::string& name, const Weight& weight) {
  keep(context, name, weight.base);
  context->saved_data[name + ".is_changed"] = weight.lora.has_value();
  if (!weight.lora) return;
  keep(context, name + ".a", weight.lora->a);
  keep(context, name + ".b", weight.lora->b);
  context->saved_data[name + ".scale"] = weight.lora->scale;
}

Weight kept_weight(AutogradContext* context, const std::string& name) {
  Weight weight(kept(context, name));
  if (context->saved_data[name + ".is_changed"].toBool())
    weight.lora = Lora{.a = kept(context, name + ".a"),
                       .b = kept(context, name + ".b"),
                       .scale = context->saved_data[name + ".scale"].toDouble()};
  return weight;
}

void keep(AutogradContext* context, const std::string& name, const DropoutDraw& draw) {
  context->saved_data[name + ".rate"] = draw.rate;
  context->saved_data[name + ".key"] = static_cast<std::int64_t>(draw.key);
  context->saved_data[name + ".first"] = draw.first_row;
}

DropoutDraw kept_draw(AutogradContext* context, const std::string& name) {
  return {context->saved_data[name + ".rate"].toDouble(),
          static_cast<std::uint64_t>(context->saved_data[name + ".key"].toInt()),
          context->saved_data[name + ".first"].toInt()};
}

}  // namespace node

}  // namespace sluice::ops
