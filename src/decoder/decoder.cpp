#include "decoder/decoder.hpp"

#include "decoder/block_norm.hpp"
#include "decoder/rotary_frequencies.hpp"
#include "ops/embedding.hpp"
#include "ops/runtime/compute_device.hpp"

#include <fmt/format.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <string>
#include <string_view>

namespace sluice {
namespace {

/// The views of one layer by the rest of their names.
class LayerViews {
 public:
  LayerViews(const ParameterViews& views, int layer) : views_(views), layer_(layer) {}
  const ops::Parameter& operator[](std::string_view name) const {
    return views_[fmt::format("model.layers.{}.{}", layer_, name)];
  }

 private:
  const ParameterViews& views_;
  int layer_;
};

AttentionParameters attention_parameters(const ModelConfig& config, const LayerViews& view) {
  AttentionParameters out{.q_proj = view["self_attn.q_proj.weight"],
                          .k_proj = view["self_attn.k_proj.weight"],
                          .v_proj = view["self_attn.v_proj.weight"],
                          .o_proj = view["self_attn.o_proj.weight"]};
  if (config.query_key_norm == QueryKeyNorm::kNone) return out;
  out.q_norm = view["self_attn.q_norm.weight"];
  out.k_norm = view["self_attn.k_norm.weight"];
  return out;
}

DeltaNetParameters delta_net_parameters(const LayerViews& view) {
  return {.in_proj_qkv = view["linear_attn.in_proj_qkv.weight"],
          .in_proj_z = view["linear_attn.in_proj_z.weight"],
          .in_proj_b = view["linear_attn.in_proj_b.weight"],
          .in_proj_a = view["linear_attn.in_proj_a.weight"],
          .conv1d = view["linear_attn.conv1d.weight"],
          .dt_bias = view["linear_attn.dt_bias"],
          .a_log = view["linear_attn.A_log"],
          .norm = view["linear_attn.norm.weight"],
          .out_proj = view["linear_attn.out_proj.weight"]};
}

DenseMlpParameters swiglu_parameters(const LayerViews& view, const std::string& name) {
  return {view[name + ".gate_proj.weight"], view[name + ".up_proj.weight"], view[name + ".down_proj.weight"]};
}

MoeParameters moe_parameters(const ModelConfig& config, const LayerViews& view) {
  MoeParameters out{view["mlp.gate.weight"],
                    {view["mlp.experts.gate_up_proj"], view["mlp.experts.down_proj"]}};
  if (config.shared_expert_intermediate_size > 0)
    out.shared = {swiglu_parameters(view, "mlp.shared_expert"), view["mlp.shared_expert_gate.weight"]};
  return out;
}

LayerParameters layer_parameters(const ModelConfig& config, const ParameterViews& views, std::size_t layer) {
  const LayerViews view(views, static_cast<int>(layer));
  LayerParameters out;
  out.input_norm = view["input_layernorm.weight"];
  out.post_attention_norm = view["post_attention_layernorm.weight"];
  if (config.attention[layer] == AttentionKind::kFull)
    out.mixer = attention_parameters(config, view);
  else
    out.mixer = delta_net_parameters(view);
  if (config.layers[layer] == MlpKind::kMoe)
    out.mlp = moe_parameters(config, view);
  else
    out.mlp = swiglu_parameters(view, "mlp");
  return out;
}

}  // namespace

Decoder::Decoder(const ModelConfig& config, const ParameterViews& views, std::int64_t sequence_length)
    : config_(config),
      embedding_(views["model.embed_tokens.weight"]),
      final_norm_(views["model.norm.weight"]),
      head_(views["lm_head.weight"]),
      rotary_(ops::make_rotary_table(sequence_length, rotary_frequencies(config.rotary),
                                     config.rotary.magnitude)) {
  for (std::size_t layer = 0; layer < config.layers.size(); ++layer)
    layers_.push_back(layer_parameters(config, views, layer));
}

at::Tensor Decoder::embed(const at::Tensor& ids) const {
  return ops::embedding(ids.flatten(), embedding_).view({ids.size(0), ids.size(1), config_.hidden_size});
}

void Decoder::embed_backward(const at::Tensor& ids, const at::Tensor& d_out) const {
  ops::embedding_backward(ids.flatten(), d_out.reshape({-1, config_.hidden_size}), embedding_,
                          config_.padding_token);
}

void Decoder::embed_backward(const at::Tensor& ids, const at::Tensor& d_out,
                             const ops::TableRows& rows) const {
  ops::embedding_backward(ids.flatten(), d_out.reshape({-1, config_.hidden_size}), rows,
                          config_.padding_token);
}

at::Tensor Decoder::token_mixer(int index, const at::Tensor& x, const ops::Documents& documents,
                                ops::AttentionRecord& record, ops::Purpose purpose) const {
  const LayerParameters& p = parameters(index);
  const at::Tensor normalised = block_norm(config_, x, p.input_norm);
  const auto* attention = std::get_if<AttentionParameters>(&p.mixer);
  return x + (attention
                  ? attention_block(config_, *attention, rotary_, normalised, documents, record, purpose)
                  : delta_net_block(config_, std::get<DeltaNetParameters>(p.mixer), normalised, documents,
                                    purpose));
}

at::Tensor Decoder::mlp_sublayer(int index, const at::Tensor& mixed, RoutingRecord& record, RoutingSums& sums,
                                 const at::Tensor& probability_grad, ops::TokenExchange& exchange,
                                 const at::Tensor& d_out) const {
  const LayerParameters& p = parameters(index);
  const auto rows = [&](const at::Tensor& x) { return x.reshape({-1, config_.hidden_size}); };
  const at::Tensor tokens = rows(block_norm(config_, mixed, p.post_attention_norm));
  const auto* moe = std::get_if<MoeParameters>(&p.mlp);
  const bool is_for_graph = d_out.defined();
  const at::Tensor fed = moe ? moe_block(config_, *moe, tokens, record, sums, probability_grad, exchange,
                                         is_for_graph ? rows(d_out) : d_out)
                             : dense_mlp(std::get<DenseMlpParameters>(p.mlp), tokens,
                                         is_for_graph ? ops::Purpose::kGraph : ops::Purpose::kOutput);
  return mixed + fed.view_as(mixed);
}

void Decoder::participate_without_tokens(int index, ops::TokenExchange& exchange) const {
  if (const auto* moe = std::get_if<MoeParameters>(&parameters(index).mlp))
    ops::serve_experts(moe->experts, config_.experts_per_token, exchange);
}

void Decoder::participate_without_tokens_backward(int index, ops::TokenExchange& exchange) const {
  if (const auto* moe = std::get_if<MoeParameters>(&parameters(index).mlp))
    ops::serve_experts_backward(moe->experts, config_.experts_per_token, exchange);
}

RoutingSums Decoder::no_routing(int index) const {
  if (config_.layers[static_cast<std::size_t>(index)] == MlpKind::kDense) return {};
  return {at::zeros({config_.experts}, ops::compute_options(at::kLong)),
          at::zeros({config_.experts}, ops::compute_options(at::kDouble))};
}

Decoder::Head Decoder::head(const at::Tensor& x, const at::Tensor& targets, double loss_scale,
                            bool want_grad) const {
  const at::AutoGradMode grad_mode(want_grad);
  const at::Tensor input = x.detach().requires_grad_(want_grad);
  const at::Tensor hidden = block_norm(config_, input, final_norm_).view({-1, config_.hidden_size});
  const ops::CrossEntropy loss =
      ops::linear_cross_entropy(hidden.detach(), head_, targets.flatten(), loss_scale, want_grad);
  const at::Tensor losses = loss.losses.view_as(targets);
  if (!want_grad) return {losses, {}};
  return {losses, torch::autograd::grad({hidden}, {input}, {loss.d_hidden}).front()};
}

at::Tensor Decoder::logits(const at::Tensor& x) const {
  const at::NoGradGuard no_grad;
  return ops::logits(block_norm(config_, x, final_norm_), head_);
}

}  // namespace sluice
