#include "decoder/decoder.hpp"

#include "base/error.hpp"
#include "decoder/block_norm.hpp"
#include "model/blocks/embedding_and_head.hpp"
#include "model/blocks/norms.hpp"
#include "ops/buffers/host_values.hpp"
#include "ops/embedding.hpp"
#include "ops/runtime/graph_gradient.hpp"

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/types.h>

#include <functional>
#include <type_traits>

namespace sluice {
namespace {

LayerParameters layer_parameters(const ModelConfig& model, const ParameterViews& views, std::size_t layer,
                                 const ops::Dropout* dropout, Adapters adapters) {
  const int index = static_cast<int>(layer);
  const ModelConfig config = model.of_layer(index);
  const LayerViews view(views, index, dropout, adapters);
  const auto norm = [&](std::string_view name, bool is_there) {
    return is_there ? view[name] : ops::Parameter{};
  };
  const bool has_mixer = config.has_mixer(index), has_mlp = config.has_mlp(index),
             has_both = config.has_both_mlps(index), is_parallel = config.has_parallel_halves(index);
  SLUICE_ASSERT(!is_parallel || !(has_both || config.router.scales_input),
                "parallel halves of layer {} leave the MLP one input", index);
  LayerParameters out{.config = config,
                      .input_norm = norm(blocks::norms::kInput, has_mixer),
                      .mlp_norm = norm(blocks::norms::before_mlp(config), has_mlp && !is_parallel),
                      .behind_mixer = norm(blocks::norms::kPostAttention, has_mixer && config.branch_norms),
                      .behind_mlp = norm(blocks::norms::kPostMlp, has_mlp && config.branch_norms),
                      .behind_dense = norm(blocks::norms::kPostDense, has_both),
                      .before_experts = norm(blocks::norms::kPreExperts, has_both),
                      .behind_experts = norm(blocks::norms::kPostExperts, has_both),
                      .scalar = view.buffer(blocks::norms::kLayerScalar)};
  switch (config.attention[layer]) {
    case AttentionKind::kNone:
      break;
    case AttentionKind::kFull:
      out.mixer = attention_parameters(config, view);
      break;
    case AttentionKind::kSliding:
      out.mixer = attention_parameters(config, view, config.sliding_window);
      break;
    case AttentionKind::kLatent:
      out.mixer = latent_attention_parameters(config, view);
      break;
    case AttentionKind::kLinear:
      out.mixer = delta_net_parameters(view);
      break;
    case AttentionKind::kShortConv:
      out.mixer = short_conv_parameters(view);
      break;
    case AttentionKind::kMamba2:
      out.mixer = mamba2_parameters(config, view);
      break;
    case AttentionKind::kKimiDelta:
      out.mixer = kimi_delta_parameters(config, view);
      break;
  }
  switch (config.layers[layer]) {
    case MlpKind::kNone:
      break;
    case MlpKind::kDense:
      out.dense = dense_mlp_parameters(config, view);
      break;
    case MlpKind::kMoe:
      out.moe = moe_parameters(config, view);
      break;
    case MlpKind::kDenseAndMoe:
      out.dense = dense_mlp_parameters(config, view);
      out.moe = moe_parameters(config, view);
      break;
  }
  return out;
}

/// The model's factor of embeddings, rounded to the type of the weights where the model has it so.
double embedding_factor(const ModelConfig& config, const ParameterViews& views) {
  if (!config.rounded_embedding_factor) return config.embedding_factor;
  const at::ScalarType type = views[blocks::embedding_and_head::kEmbedding].value.scalar_type();
  return at::scalar_tensor(config.embedding_factor, at::kFloat).to(type).item<double>();
}

}  // namespace

Halfway Halfway::leaves() const {
  const auto leaf = [](const at::Tensor& x) {
    return x.defined() ? x.detach().requires_grad_(true) : at::Tensor();
  };
  return {leaf(hidden), leaf(normalised)};
}

std::vector<at::Tensor> Halfway::tensors() const {
  return normalised.defined() ? std::vector{hidden, normalised} : std::vector{hidden};
}

Decoder::Decoder(const ModelConfig& config, const ParameterViews& views, std::int64_t positions,
                 ops::VocabularyExchange* vocabulary, const ops::Dropout* dropout, Adapters adapters)
    : config_(config),
      embedding_factor_(embedding_factor(config, views)),
      embedding_(views[blocks::embedding_and_head::kEmbedding]),
      final_norm_(views[blocks::norms::kFinal]),
      head_(views.weight(blocks::embedding_and_head::kHead, dropout, adapters)),
      rotary_(make_rotary_tables(config, positions, views.device())),
      device_(views.device()),
      vocabulary_(vocabulary) {
  for (std::size_t layer = 0; layer < config.layers.size(); ++layer)
    layers_.push_back(layer_parameters(config, views, layer, dropout, adapters));
}

at::Tensor Decoder::embed(const at::Tensor& ids) const {
  return embedded(ids, ops::embedding(ids.flatten(), embedding_));
}

at::Tensor Decoder::embed(const at::Tensor& ids, const ops::TableRows& rows) const {
  return embedded(ids, ops::embedding(ids.flatten(), rows, config_.vocab_size));
}

at::Tensor Decoder::embedded(const at::Tensor& ids, const at::Tensor& rows) const {
  std::vector<std::int64_t> shape = ids.sizes().vec();
  shape.push_back(config_.hidden_size);
  at::Tensor out = rows.view(shape);
  return embedding_factor_ == 1 ? out : out.mul_(embedding_factor_);
}

at::Tensor Decoder::lookup_gradient(const at::Tensor& d_out) const {
  const at::Tensor rows = d_out.reshape({-1, config_.hidden_size});
  return embedding_factor_ == 1 ? rows : rows * embedding_factor_;
}

void Decoder::embed_backward(const at::Tensor& ids, const at::Tensor& d_out) const {
  ops::embedding_backward(ids.flatten(), lookup_gradient(d_out), embedding_, config_.padding_token);
}

void Decoder::embed_backward(const at::Tensor& ids, const at::Tensor& d_out,
                             const ops::TableRows& rows) const {
  ops::embedding_backward(ids.flatten(), lookup_gradient(d_out), rows, config_.padding_token);
}

at::Tensor Decoder::with_branch(const at::Tensor& x, const at::Tensor& branch, const ops::Parameter& norm,
                                double factor) const {
  const bool is_normalised = norm.value.defined();
  return at::add(x, is_normalised ? block_norm(config_, branch, norm) : branch, factor);
}

Halfway Decoder::halfway_of(int index, at::Tensor mixed, at::Tensor normalised) const {
  if (!config_.has_parallel_halves(index)) return {std::move(mixed)};
  return {std::move(mixed), std::move(normalised)};
}

Halfway Decoder::halfway(int index, const at::Tensor& x, const at::Tensor& mixed) const {
  const at::NoGradGuard no_grad;
  if (!config_.has_parallel_halves(index)) return {mixed};
  return {mixed, block_norm(config_, x, parameters(index).input_norm)};
}

Halfway Decoder::token_mixer(int index, const at::Tensor& x, const ops::Documents& documents,
                             ops::AttentionRecord& record, ops::Purpose wanted) const {
  const LayerParameters& p = parameters(index);
  if (!config_.has_mixer(index)) return {x};
  // A norm behind the mixer needs its result in backward.
  const ops::Purpose purpose = p.behind_mixer.value.defined() ? ops::Purpose::kOutput : wanted;
  const at::Tensor normalised = block_norm(config_, x, p.input_norm);
  const ops::RotaryTable& rotary = rotary_.of(config_.rotates_as(index));
  const auto mix = [&]<class Parameters>(const Parameters& mixer) {
    if constexpr (std::is_same_v<Parameters, AttentionParameters>)
      return attention_block(p.config, mixer, rotary, normalised, documents, record, purpose);
    else if constexpr (std::is_same_v<Parameters, LatentAttentionParameters>)
      return latent_attention_block(p.config, mixer, rotary, normalised, documents, record, purpose);
    else if constexpr (std::is_same_v<Parameters, ShortConvParameters>)
      return short_conv_block(p.config, mixer, normalised, documents, purpose);
    else if constexpr (std::is_same_v<Parameters, Mamba2Parameters>)
      return mamba2_block(p.config, mixer, normalised, documents, purpose);
    else if constexpr (std::is_same_v<Parameters, KimiDeltaParameters>)
      return kimi_delta_block(p.config, mixer, normalised, documents, purpose);
    else if constexpr (std::is_same_v<Parameters, DeltaNetParameters>)
      return delta_net_block(p.config, mixer, normalised, documents, purpose);
    else
      return at::Tensor();
  };
  const at::Tensor mixed = with_branch(x, std::visit(mix, p.mixer), p.behind_mixer, config_.residual_factor);
  return halfway_of(index, mixed, normalised);
}

Halfway Decoder::token_mixer(int index, const at::Tensor& x, std::span<const SequencePart> parts,
                             const RotaryTables& tables, SequenceCache& cache) const {
  const LayerParameters& p = parameters(index);
  if (!config_.has_mixer(index)) return {x};
  const at::Tensor normalised = block_norm(config_, x, p.input_norm);
  const ops::RotaryTable& rotary = tables.of(config_.rotates_as(index));
  const auto mix = [&]<class Parameters>(const Parameters& mixer) {
    if constexpr (std::is_same_v<Parameters, AttentionParameters>)
      return cached_attention_block(p.config, mixer, rotary, normalised, parts, cache.attention(index));
    else if constexpr (std::is_same_v<Parameters, LatentAttentionParameters>)
      return cached_latent_attention_block(p.config, mixer, rotary, normalised, parts, cache.latent(index));
    else if constexpr (std::is_same_v<Parameters, ShortConvParameters>)
      return cached_short_conv_block(p.config, mixer, normalised, parts, cache.short_conv(index));
    else if constexpr (std::is_same_v<Parameters, Mamba2Parameters>)
      return cached_mamba2_block(p.config, mixer, normalised, parts, cache.delta_net(index));
    else if constexpr (std::is_same_v<Parameters, KimiDeltaParameters>)
      return cached_kimi_delta_block(p.config, mixer, normalised, parts, cache.delta_net(index));
    else if constexpr (std::is_same_v<Parameters, DeltaNetParameters>)
      return cached_delta_net_block(p.config, mixer, normalised, parts, cache.delta_net(index));
    else
      return at::Tensor();
  };
  const at::Tensor mixed = with_branch(x, std::visit(mix, p.mixer), p.behind_mixer, config_.residual_factor);
  return halfway_of(index, mixed, normalised);
}

RotaryTables Decoder::rotary_rows(std::span<const SequencePart> parts) const {
  std::vector<std::int64_t> positions;
  for (const SequencePart& part : parts)
    for (std::int64_t position = part.begin; position < part.end(); ++position) positions.push_back(position);
  return rows_of(rotary_, ops::tensor_of<std::int64_t>(positions, device()));
}

at::Tensor Decoder::mlp_input(int index, const Halfway& from) const {
  const at::Tensor& input = from.normalised;
  return (input.defined() ? input : block_norm(config_, from.hidden, parameters(index).mlp_norm))
      .reshape({-1, config_.hidden_size});
}

at::Tensor Decoder::mlp_sublayer(int index, const Halfway& from, RoutingRecord& record, RoutingSums& sums,
                                 const at::Tensor& probability_grad, ops::TokenExchange& exchange,
                                 const at::Tensor& d_out) const {
  const LayerParameters& p = parameters(index);
  const auto scaled = [&](const at::Tensor& x) {
    return p.scalar.defined() ? x * p.scalar.to(x.scalar_type()) : x;
  };
  if (!config_.has_mlp(index)) return scaled(from.hidden);
  if (p.moe) {
    const at::Tensor d_sum = d_out.defined() ? scaled(d_out) : d_out;
    return scaled(experts_sublayer(index, from, record, sums, probability_grad, exchange, d_sum));
  }
  const bool needs_output = !d_out.defined() || p.behind_mlp.value.defined();
  const at::Tensor fed = dense_mlp(*p.dense, mlp_input(index, from),
                                   needs_output ? ops::Purpose::kOutput : ops::Purpose::kGraph);
  return scaled(with_branch(from.hidden, fed.view_as(from.hidden), p.behind_mlp, config_.residual_factor));
}

at::Tensor Decoder::experts_sublayer(int index, const Halfway& from, RoutingRecord& record, RoutingSums& sums,
                                     const at::Tensor& probability_grad, ops::TokenExchange& exchange,
                                     const at::Tensor& d_out) const {
  const LayerParameters& p = parameters(index);
  const at::Tensor& mixed = from.hidden;
  const double factor = config_.residual_factor * config_.mixture_factor;
  const bool has_norm = p.behind_mlp.value.defined(), has_dense = p.dense.has_value();
  const auto rows = [&](const at::Tensor& x) { return x.reshape({-1, config_.hidden_size}); };
  const at::Tensor tokens = mlp_input(index, from);
  const at::Tensor of_experts = has_dense ? rows(block_norm(config_, mixed, p.before_experts)) : tokens;
  const MoeInputs inputs{of_experts, config_.router.scales_input ? rows(mixed) : of_experts};
  at::Tensor dense;
  const auto feed_dense = [&] {
    if (has_dense) dense = block_norm(config_, dense_mlp(*p.dense, tokens), p.behind_dense);
  };
  const auto feed = [&](const at::Tensor& d_fed, const std::function<void()>& meanwhile) {
    return moe_block(config_, *p.moe, inputs, record, sums, probability_grad, exchange, d_fed, meanwhile);
  };
  if (!d_out.defined()) {
    at::Tensor fed = feed({}, feed_dense);
    if (has_norm && !at::GradMode::is_enabled()) record.output = fed;
    if (has_dense) fed = dense + block_norm(config_, fed, p.behind_experts);
    return with_branch(mixed, fed.view_as(mixed), p.behind_mlp, factor);
  }
  at::Tensor d_fed = factor == 1 ? rows(d_out) : rows(d_out) * factor;
  SLUICE_ASSERT(has_norm || !has_dense, "a dense MLP beside experts needs norms behind both");
  if (!has_norm) return at::add(mixed, feed(d_fed, {}).view_as(mixed), factor);
  const auto through_norm = [&](const at::Tensor& before, const ops::Parameter& norm,
                                const at::Tensor& d_behind) {
    const at::Tensor input = before.detach().requires_grad_(true);
    return ops::graph_gradient(block_norm(config_, input, norm), input, d_behind);
  };
  if (!has_dense) {
    d_fed = through_norm(record.output, p.behind_mlp, d_fed);
    return at::add(mixed, ops::with_gradient(feed(d_fed, {}), d_fed).view_as(mixed), factor);
  }
  feed_dense();
  const at::Tensor before = record.output.detach().requires_grad_(true);
  const at::Tensor behind = block_norm(config_, before, p.behind_experts);
  const at::Tensor d_sum = through_norm(dense + behind, p.behind_mlp, d_fed);
  d_fed = ops::graph_gradient(behind, before, d_sum);
  const at::Tensor fed = ops::with_gradient(dense, d_sum) + ops::with_gradient(feed(d_fed, {}), d_fed);
  return at::add(mixed, fed.view_as(mixed), factor);
}

void Decoder::participate_without_tokens(int index, ops::TokenExchange& exchange) const {
  if (const auto& moe = parameters(index).moe)
    ops::serve_experts(moe->experts, config_.experts_per_token, exchange);
}

void Decoder::participate_without_tokens_backward(int index, ops::TokenExchange& exchange) const {
  if (const auto& moe = parameters(index).moe)
    ops::serve_experts_backward(moe->experts, config_.experts_per_token, exchange);
}

RoutingSums Decoder::no_routing(int index) const {
  if (!config_.has_experts(index)) return {};
  const at::TensorOptions options(device());
  return {at::zeros({config_.experts}, options.dtype(at::kLong)),
          at::zeros({config_.experts}, options.dtype(at::kDouble)),
          at::zeros({}, options.dtype(at::kDouble))};
}

at::Tensor Decoder::head_input(const at::Tensor& x) const {
  const at::Tensor hidden = block_norm(config_, x, final_norm_);
  return config_.logit_divisor == 1 ? hidden : hidden / config_.logit_divisor;
}

Decoder::Head Decoder::head(const at::Tensor& x, const at::Tensor& targets,
                            const ops::LossCoefficients& coefficients,
                            const ops::BesideTargets& beside) const {
  const bool want_grad = !std::holds_alternative<ops::NoLossGradient>(coefficients);
  const at::AutoGradMode grad_mode(want_grad);
  const at::Tensor input = x.detach().requires_grad_(want_grad);
  const at::Tensor hidden = head_input(input).view({-1, config_.hidden_size});
  const ops::CrossEntropy loss = ops::linear_cross_entropy(hidden.detach(), head_, targets.flatten(),
                                                           coefficients, beside, vocabulary_, logit_cap());
  Head made{loss.losses.view_as(targets), {}, {}, loss.distribution, loss.taught};
  if (want_grad)
    made.d_x = ops::graph_gradient(hidden, input, loss.d_hidden);
  else
    made.greedy = loss.greedy.view_as(targets);
  return made;
}

void Decoder::serve_head(const ops::LossCoefficients& coefficients, const ops::BesideTargets& beside) const {
  const at::Tensor no_targets = at::empty({0}, at::TensorOptions(device_).dtype(at::kLong));
  static_cast<void>(ops::linear_cross_entropy(no_tokens(), head_, no_targets, coefficients, beside,
                                              vocabulary_, logit_cap()));
}

at::Tensor Decoder::no_tokens() const {
  return at::empty({0, config_.hidden_size}, head_.base.value.options());
}

at::Tensor Decoder::logits(const at::Tensor& x) const {
  const at::NoGradGuard no_grad;
  return ops::logits(x.size(0) == 0 ? x : head_input(x), head_, vocabulary_, logit_cap());
}

}  // namespace sluice
