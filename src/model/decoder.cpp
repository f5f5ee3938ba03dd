#include "model/decoder.hpp"

#include "ops/embedding.hpp"
#include "ops/norm.hpp"

#include <fmt/format.h>
#include <torch/types.h>

#include <string>

namespace sluice {
namespace {

LayerParameters layer_parameters(const ParameterViews& views, int layer, MlpKind mlp) {
  const auto view = [&](const char* name) { return views[fmt::format("model.layers.{}.{}", layer, name)]; };
  LayerParameters out;
  out.input_norm = view("input_layernorm.weight");
  out.post_attention_norm = view("post_attention_layernorm.weight");
  out.attention = {view("self_attn.q_proj.weight"), view("self_attn.k_proj.weight"),
                   view("self_attn.v_proj.weight"), view("self_attn.o_proj.weight"),
                   view("self_attn.q_norm.weight"), view("self_attn.k_norm.weight")};
  if (mlp == MlpKind::kMoe) {
    out.moe = {view("mlp.gate.weight"), view("mlp.experts.gate_up_proj"), view("mlp.experts.down_proj")};
  } else {
    out.dense = {view("mlp.gate_proj.weight"), view("mlp.up_proj.weight"), view("mlp.down_proj.weight")};
  }
  return out;
}

}  // namespace

Decoder::Decoder(const ModelConfig& config, const ParameterViews& views, std::int64_t sequence_length)
    : config_(config),
      embedding_(views["model.embed_tokens.weight"]),
      final_norm_(views["model.norm.weight"]),
      head_(views["lm_head.weight"]),
      rotary_(ops::make_rotary_table(sequence_length, config.head_dim, config.rope_theta)) {
  for (int layer = 0; layer < config.layer_count(); ++layer)
    layers_.push_back(layer_parameters(views, layer, config.layers[static_cast<std::size_t>(layer)]));
}

at::Tensor Decoder::embed(const at::Tensor& ids) const {
  return ops::embedding(ids.flatten(), embedding_).view({ids.size(0), ids.size(1), config_.hidden_size});
}

void Decoder::embed_backward(const at::Tensor& ids, const at::Tensor& d_out) const {
  ops::embedding_backward(ids.flatten(), d_out.reshape({-1, config_.hidden_size}), embedding_);
}

at::Tensor Decoder::layer(int index, const at::Tensor& x, RoutingRecord& record, RoutingSums& sums,
                          const at::Tensor& probability_grad) const {
  const LayerParameters& p = layers_[static_cast<std::size_t>(index)];
  const at::Tensor mixed = x + attention_block(config_, p.attention, rotary_,
                                               ops::rms_norm(x, p.input_norm, config_.rms_norm_eps));
  const at::Tensor tokens =
      ops::rms_norm(mixed, p.post_attention_norm, config_.rms_norm_eps).view({-1, config_.hidden_size});
  const at::Tensor fed = p.moe ? moe_block(config_, *p.moe, tokens, record, sums, probability_grad)
                               : dense_mlp(*p.dense, tokens);
  return mixed + fed.view_as(mixed);
}

RoutingSums Decoder::no_routing(int index) const {
  if (config_.layers[static_cast<std::size_t>(index)] == MlpKind::kDense) return {};
  return {at::zeros({config_.experts}, at::kLong), at::zeros({config_.experts}, at::kDouble)};
}

Decoder::Head Decoder::head(const at::Tensor& x, const at::Tensor& targets, double loss_scale,
                            bool want_grad) const {
  const at::AutoGradMode grad_mode(want_grad);
  const at::Tensor input = x.detach().requires_grad_(want_grad);
  const at::Tensor hidden =
      ops::rms_norm(input, final_norm_, config_.rms_norm_eps).view({-1, config_.hidden_size});
  const ops::CrossEntropy loss =
      ops::linear_cross_entropy(hidden.detach(), head_, targets.flatten(), loss_scale, want_grad);
  if (!want_grad) return {loss.loss_sum, {}};
  return {loss.loss_sum, torch::autograd::grad({hidden}, {input}, {loss.d_hidden}).front()};
}

at::Tensor Decoder::logits(const at::Tensor& x) const {
  const at::NoGradGuard no_grad;
  return ops::logits(ops::rms_norm(x, final_norm_, config_.rms_norm_eps), head_);
}

}  // namespace sluice
