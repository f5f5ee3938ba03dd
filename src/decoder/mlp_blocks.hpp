// Feed-forward blocks: a dense MLP, with a gate or without, and a mixture of such experts behind a top-k router.
#pragma once

#include "decoder/parameter_views.hpp"
#include "model/model_config.hpp"
#include "ops/experts.hpp"
#include "ops/linear.hpp"

#include <functional>
#include <optional>

namespace sluice {

struct DenseMlpParameters {
  std::optional<ops::Weight> gate_proj;  ///< gate projection [intermediate, hidden]; nothing without a gate
  ops::Weight up_proj;                   ///< up projection [intermediate, hidden]
  ops::Weight down_proj;                 ///< down projection [hidden, intermediate]
  ops::Gating gating{};                  ///< form of the activation
};

/// An expert that every token passes through, weighted by the sigmoid of its gate if it has one.
struct SharedExpertParameters {
  DenseMlpParameters mlp;
  std::optional<ops::Weight> gate{};  ///< gate of the shared expert's output [1, hidden]
};

/// Projections between the hidden states and the vectors of another width that routed experts get and give.
struct LatentProjections {
  ops::Weight in;   ///< [latent, hidden]
  ops::Weight out;  ///< [hidden, latent]
};

struct MoeParameters {
  ops::Weight router;          ///< router's projection [experts, hidden]
  ops::Parameter router_bias;  ///< bias of the router [experts]; undefined for none
  /// [experts] or [1, experts] float32, added to the scores for the choice alone; undefined for none
  at::Tensor correction_bias;
  ops::ExpertParameters experts;   ///< experts that this rank holds
  ops::Parameter input_scale{};    ///< factors of the router's normalised input [hidden]; undefined for none
  ops::Parameter expert_scales{};  ///< factors of the weights of each expert [experts]; undefined for none
  std::optional<SharedExpertParameters> shared{};
  std::optional<LatentProjections> latent{};
};

/// The weights of a dense layer.
[[nodiscard]] DenseMlpParameters dense_mlp_parameters(const ModelConfig& config, const LayerViews& layer);
/// The weights of a layer with experts.
[[nodiscard]] MoeParameters moe_parameters(const ModelConfig& config, const LayerViews& layer);

/// Sums over one or more routings, for the router's own losses; undefined tensors where they are not needed.
struct RoutingSums {
  at::Tensor expert_tokens;     ///< number of choices of each expert, [experts] int64
  at::Tensor probability_sums;  ///< sum over tokens of the router's probabilities, [experts] float64
  /// Sum over tokens of log(sum(exp(logits)))^2, [] float64; 0 without a z-loss.
  at::Tensor squared_log_sums;
};

/// Record that a layer's router keeps from the forward pass of one micro-batch until its backward.
struct RoutingRecord {
  /// [tokens] bool: tokens that count in RoutingSums and in the router's losses, set before the first pass;
  /// undefined: all tokens count.
  at::Tensor counted;
  float z_scale = 0;  ///< RouterLossGrad::z_scale of the step, set before the first pass
  /// [tokens, k] int64: experts of each token, which a recompute repeats; undefined before the first pass
  at::Tensor chosen;
  /// [tokens, hidden]: output of the block, which a norm behind it needs in a pass for the graph alone; undefined
  /// without such a norm, or where the graph is kept.
  at::Tensor output;
  /// [tokens, latent]: results of experts of a latent width, from a first pass without a graph to a pass for the
  /// graph alone, which multiplies them once more; undefined otherwise.
  at::Tensor latent;
};

/// MLP of x [T, hidden], with a result of the same shape; zeros in a pass for the graph alone.
[[nodiscard]] at::Tensor dense_mlp(const DenseMlpParameters& parameters, const at::Tensor& x,
                                   ops::Purpose purpose = ops::Purpose::kOutput);

/// Tokens [T, hidden] for a mixture of experts: what its experts get, and what its router gets.
struct MoeInputs {
  at::Tensor experts, router;
};

/// Collective over the ranks of `exchange`, in the first pass and in backward (see ops::experts). Mixture of
/// experts of x, with a result [T, hidden]; `meanwhile` runs while the tokens travel. Fills `record` on the first
/// pass and repeats its choice on a later one; adds to `sums`, for tokens that count, on the first pass alone. With
/// `d_out` [T, hidden], the gradient of its output, the pass is for its graph alone, as in ops::Experts.
/// `probability_grad` [experts] float32 is read during backward (see ops::route); may be undefined.
[[nodiscard]] at::Tensor moe_block(const ModelConfig& config, const MoeParameters& parameters,
                                   const MoeInputs& x, RoutingRecord& record, RoutingSums& sums,
                                   const at::Tensor& probability_grad, ops::TokenExchange& exchange,
                                   const at::Tensor& d_out = {}, const std::function<void()>& meanwhile = {});

}  // namespace sluice
