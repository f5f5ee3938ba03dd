// Shape and settings of a decoder from its config.json, in one spelling for all architectures.
#pragma once

#include "base/dtype.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// Feed-forward part of a layer. kNone: the layer is its token mixer alone; kDenseAndMoe: a dense MLP and experts
/// side by side, each with norms of its own, whose sum is the layer's.
enum class MlpKind : std::uint8_t { kNone, kDense, kMoe, kDenseAndMoe };
/// Kind of a layer's token mixer: none, so that the layer is its MLP alone; softmax attention to all earlier
/// tokens or to a window of them, latent attention, whose keys and values come from one latent vector per
/// token, a gated delta net, a gated short convolution, Mamba-2, or Kimi delta attention.
enum class AttentionKind : std::uint8_t {
  kNone,
  kFull,
  kSliding,
  kLatent,
  kLinear,
  kShortConv,
  kMamba2,
  kKimiDelta,
};

/// Function between the projections of an MLP: silu(gate) * up, gelu(gate) * up with GELU by its formula with tanh,
/// or without a gate relu(up)^2.
enum class MlpActivation : std::uint8_t { kSilu, kGeluTanh, kSquaredRelu };

/// What limits of MLPs clamp, beside up to [-limit, limit]. kGate: gates, at most the limit, with up + 1 as their
/// factor. kSilu: the silu of gates.
enum class SwigluClamp : std::uint8_t { kGate, kSilu };

/// Limits of the MLPs of a layer; 0: none.
struct SwigluLimits {
  double experts = 0;        ///< limit of routed experts
  double shared_expert = 0;  ///< limit of the shared expert
  double dense = 0;          ///< limit of a dense MLP

  bool operator==(const SwigluLimits&) const = default;
};

/// Order of the rows of experts' joint gate and up: all gates, then all ups; or alternating, gate 0, up 0,
/// gate 1, up 1 and so on.
enum class GateUpOrder : std::uint8_t { kHalves, kInterleaved };

/// Norms of the queries and keys of full attention.
enum class QueryKeyNorm : std::uint8_t {
  kNone,
  kPerHead,          ///< each head by itself, with weights [head_dim]
  kWholeProjection,  ///< all heads at once, with weights [heads x head_dim]
};

/// Scaling of a rotary embedding for sequences longer than those it was first trained on.
enum class RotaryScaling : std::uint8_t {
  kNone,
  kLinear,  ///< every pair turns `factor` times slower
  /// Pairs before `blend_begin` keep their frequency, those after `blend_end` turn slower, and between them
  /// it is interpolated.
  kYarn,
  /// Pairs that turn more than `many_turns` times in `original_length` positions keep their frequency, those that
  /// turn less than `few_turns` times turn `factor` times slower, and between them it is interpolated.
  kLlama3,
};

/// Rotary position embedding: pair i of a head's entries turns by theta^(-2i/dim) from position to position.
struct RotaryConfig {
  std::int64_t dim = 0;  ///< entries of a head that are rotated, an even number; 0: none
  double theta = 10000;
  std::int64_t turning_pairs = 0;  ///< number of the first pairs, which alone turn; 0: all do
  RotaryScaling scaling = RotaryScaling::kNone;
  double factor = 1;
  /// Pairs, as real numbers, between which frequencies are blended; they differ with kYarn.
  double blend_begin = 0, blend_end = 0;
  double original_length = 0, few_turns = 0, many_turns = 0;  ///< numbers of kLlama3
  double magnitude = 1;                                       ///< factor of cosines and sines
  /// Whether pair i is entries 2i and 2i + 1; otherwise i and i + dim/2.
  bool interleaved = false;

  bool operator==(const RotaryConfig&) const = default;
};

/// Settings of gated delta nets and of Kimi delta attention; zero for models without linear attention.
struct LinearAttentionConfig {
  std::int64_t key_heads = 0;  ///< heads of keys and queries; divides value_heads
  std::int64_t value_heads = 0;
  std::int64_t key_head_dim = 0;
  std::int64_t value_head_dim = 0;
  std::int64_t conv_kernel_size = 0;  ///< width of the causal convolution, tokens

  // Kimi delta attention alone, whose heads of keys are those of values.
  /// Width between the two projections to the decay, and to the gate of the output; 0: one projection to each.
  std::int64_t gate_rank = 0;
  /// Factor of the sigmoid that a log decay is then; nothing: it is minus a rate times a softplus.
  std::optional<double> least_log_decay{};
  bool rate_has_four_dims = false;  ///< whether A_log has the shape [1, 1, heads, 1], not [heads]
};

/// Settings of Mamba-2; zero for models without it.
struct Mamba2Config {
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t groups = 0;            ///< groups of heads that share B and C; divides heads
  std::int64_t state_dim = 0;         ///< numbers of the state for each entry of a head
  std::int64_t conv_kernel_size = 0;  ///< width of the causal convolution, tokens
  bool conv_bias = false;             ///< whether the convolution has a bias
  /// Limits of the time step.
  double least_step = 0, largest_step = std::numeric_limits<double>::infinity();

  /// Entries of all heads.
  [[nodiscard]] std::int64_t width() const { return heads * head_dim; }
  /// Channels of the convolution: the heads' inputs, and B and C of each group.
  [[nodiscard]] std::int64_t mixed() const { return width() + 2 * groups * state_dim; }
};

/// Settings of multi-head latent attention; zero for models without it.
struct LatentAttentionConfig {
  std::int64_t query_rank =
      0;  ///< q_lora_rank: size of the latent vector of queries; 0: queries come from the token itself
  std::int64_t rank = 0;      ///< kv_lora_rank: size of the latent vector of keys and values
  std::int64_t nope_dim = 0;  ///< qk_nope_head_dim: entries of a query or key head that are not rotated
  std::int64_t rope_dim =
      0;  ///< qk_rope_head_dim: rotated entries behind these, which for keys are the same in all heads
  std::int64_t value_dim = 0;  ///< size of a value head (v_head_dim)
  double score_factor = 1;     ///< factor of attention scores, besides 1 / sqrt(key_dim())

  [[nodiscard]] std::int64_t key_dim() const { return nope_dim + rope_dim; }
  /// Common width of queries, keys and values in attention; shorter ones are padded by zeros.
  [[nodiscard]] std::int64_t padded_dim() const { return std::max(key_dim(), value_dim); }
};

/// Limit on the length of sequences, above which attention would need what no block here computes.
struct SequenceLimit {
  std::int64_t tokens = 0;  ///< most tokens of a sequence; 0: no limit
  std::string key;          ///< key of config.json that gives the limit
  std::string reason;       ///< effect on attention in longer sequences, as half a sentence
};

/// Function that turns a router's logits into the scores of experts.
enum class RouterScore : std::uint8_t { kSoftmax, kSigmoid };

/// Router: the choice of experts and their weights from a token's logits.
struct RouterConfig {
  RouterScore score = RouterScore::kSoftmax;
  /// Whether the largest logits are chosen, not the largest scores: large logits may have one score.
  bool chooses_by_logits = false;
  /// Whether tokens are normalised, without a weight, and scaled by a trained vector and hidden_size^-0.5 before they
  /// are multiplied; they are the hidden states then, not what experts get.
  bool scales_input = false;
  bool has_expert_scales = false;  ///< whether the weights of each expert have a trained factor, applied last
  bool has_bias = false;           ///< whether the logits have a trained bias
  bool has_correction_bias =
      false;  ///< whether a float32 bias is added to the scores for the choice of experts alone
  /// Whether checkpoints give the bias the shape [1, experts], not [experts].
  bool correction_bias_is_row = false;
  std::int64_t groups = 1;  ///< number of groups of consecutive experts; divides the number of experts
  /// Number of best groups from which a token chooses its experts.
  std::int64_t chosen_groups = 1;
  /// Number of largest scores whose sum ranks a group: 2 or 1.
  std::int64_t scores_per_group = 2;
  /// Norm_topk_prob: whether a token's weights are divided by their sum plus `epsilon`.
  bool normalize = false;
  double epsilon = 0;    ///< number added to the sum of a token's weights before the division
  double least_sum = 0;  ///< least divisor: a smaller sum of weights counts as this
  double scale = 1;      ///< factor of the weights, applied last
  double logit_cap = 0;  ///< bound c of the logits l, which become c tanh(l / c); 0 for none

  bool knows_balancing_loss = true;  ///< whether transformers has a load-balancing loss for the family

  /// Whether the model is trained with a load-balancing loss. A loss that ignores correction biases would
  /// count choices that are not made.
  [[nodiscard]] bool has_balancing_loss() const { return knows_balancing_loss && !has_correction_bias; }
  bool operator==(const RouterConfig&) const = default;
};

/// Heads of softmax attention.
struct AttentionHeads {
  std::int64_t queries = 0;          ///< heads of queries
  std::int64_t keys_and_values = 0;  ///< heads of keys and values; divides `queries`
  std::int64_t size = 0;             ///< entries of a head of queries or keys, even
  bool values_are_keys = false;      ///< whether values are what the projection of keys makes
  std::int64_t value_size = 0;       ///< entries of a head of values; 0: `size`
  bool has_sinks = false;            ///< whether each head has a sink

  bool operator==(const AttentionHeads&) const = default;
};

/// Shape and settings of a model, from its config.json.
struct ModelConfig {
  std::string model_type;  ///< model_type of config.json: "qwen3_moe"
  std::int64_t vocab_size = 0;
  /// Token whose row of the embedding gets no gradient; -1: none.
  std::int64_t padding_token = -1;
  std::int64_t hidden_size = 0;
  std::int64_t attention_heads = 0;
  std::int64_t key_value_heads = 0;  ///< heads of keys and values; divides attention_heads
  /// Size of a head, even; with latent attention LatentAttentionConfig::padded_dim().
  std::int64_t head_dim = 0;
  /// Size of a head of values in full and sliding attention; 0: head_dim.
  std::int64_t value_dim = 0;
  /// Heads of each layer, where these are not the same in all; otherwise empty. of_layer() has a layer's.
  std::vector<AttentionHeads> heads_by_layer;
  RotaryConfig rotary;  ///< rotary embedding of all layers, but for what sliding_rotary says
  /// Rotary embedding of layers of AttentionKind::kSliding, where it is another one than `rotary`.
  std::optional<RotaryConfig> sliding_rotary;
  /// Whether layers with a dense MLP rotate as those with a window do, though they have none.
  bool dense_layers_rotate_as_sliding = false;
  LatentAttentionConfig latent_attention;
  QueryKeyNorm query_key_norm = QueryKeyNorm::kNone;
  bool norms_behind_rotation = false;  ///< whether queries and keys are rotated before their norms
  bool attention_bias = false;         ///< whether queries, keys and values of softmax attention have biases
  bool attention_output_bias = false;  ///< whether attention's output projection has a bias
  /// Whether each head has a sink: a logit that takes part in the softmax, but has no value.
  bool attention_sinks = false;
  bool values_are_keys = false;  ///< whether values of attention are what the projection of keys makes
  bool value_norm = false;       ///< whether values of attention are normalised by head, without a weight
  double value_factor = 1;       ///< factor of values of full and sliding attention
  /// Factor of scores of full and sliding attention; nothing: 1 / sqrt(head_dim).
  std::optional<double> score_factor;
  /// Dropout of attention probabilities that config.json asks for; no block applies it.
  double attention_dropout = 0;
  std::int64_t sliding_window =
      0;  ///< tokens that a token attends to in layers of AttentionKind::kSliding, itself included
  bool attention_output_gate = false;  ///< whether attention's output has a gate
  /// Whether that gate has a projection of its own; otherwise it is made with the queries.
  bool separate_gate = false;
  /// Whether a gate with a projection of its own has one value for each head, not for each entry of it.
  bool gate_per_head = false;
  bool softplus_gate = false;  ///< whether the gate is the softplus of its projection, not the sigmoid
  /// Whether norms multiply by 1 + weight; a delta net's own norm does not.
  bool zero_centred_norms = false;
  bool layer_norms = false;  ///< whether norms take the mean off a row, and multiply before they round
  /// Whether what token mixers and MLPs make is normalised before it is added to the hidden states.
  bool branch_norms = false;
  /// Whether the MLP of a layer with both halves gets what its token mixer gets, and both are added to the same
  /// hidden states; otherwise it gets these with the mixer's result, normalised.
  bool parallel_halves = false;
  bool layer_scalars = false;    ///< whether each layer's hidden states are multiplied by a stored constant
  bool unrounded_norms = false;  ///< whether norms multiply by the weight before they round
  double embedding_factor = 1;   ///< factor of embeddings
  /// Whether that factor is rounded to the type of the weights.
  bool rounded_embedding_factor = false;
  double logit_cap = 0;        ///< bound c of the model's logits l, which become c tanh(l / c); 0: none
  double residual_factor = 1;  ///< factor of what token mixers and MLPs add to the hidden states
  double mixture_factor = 1;   ///< further factor of what an MLP with experts adds
  double logit_divisor = 1;    ///< divisor of logits
  std::int64_t intermediate_size = 0;  ///< width of dense feed-forward layers
  SequenceLimit sequence_limit;
  std::int64_t max_positions = 0;        ///< max_position_embeddings; 0 if config.json has none
  std::vector<MlpKind> layers;           ///< kind of the MLP of each layer
  std::vector<AttentionKind> attention;  ///< kind of the token mixer of each layer
  LinearAttentionConfig linear_attention;
  std::int64_t short_conv_taps = 0;  ///< tokens that a short convolution weighs, the newest included
  Mamba2Config mamba2;
  double rms_norm_eps = 1e-6;  ///< epsilon of norms, which is added to a mean of squares
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
  std::vector<std::string> unknown_keys;  ///< keys of config.json that are unknown here
  /// Type of a checkpoint's weights as config.json says; files may differ.
  DType published_dtype = DType::kBFloat16;
  bool quantized = false;  ///< whether config.json announces codes and scales in the files

  // Number of routed experts; zero for models without MoE layers, like the settings below.
  std::int64_t experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t expert_intermediate_size = 0;
  /// Width of the vectors that routed experts get and give, between two projections; 0: the hidden size, without
  /// projections.
  std::int64_t expert_latent_size = 0;
  /// Width of the expert that every token passes through; 0: none.
  std::int64_t shared_expert_intermediate_size = 0;
  bool shared_expert_gate = false;  ///< whether that expert's output is weighted by a sigmoid gate
  bool expert_bias = false;         ///< whether each expert's projections have biases
  MlpActivation mlp_activation = MlpActivation::kSilu;  ///< activation of all MLPs, of experts too
  GateUpOrder gate_up_order = GateUpOrder::kHalves;     ///< order of the rows of experts.gate_up_proj
  SwigluClamp swiglu_clamp = SwigluClamp::kGate;
  SwigluLimits swiglu_limits;  ///< limits of MLPs in all layers
  /// Limits of each layer, where these are not the same in all; otherwise empty. of_layer() has a layer's.
  std::vector<SwigluLimits> limits_by_layer;
  double swiglu_slope = 1;  ///< factor of a clamped gate within its sigmoid
  RouterConfig router;
  /// Whether experts precede the router in the module tree, and so in the manifest.
  bool experts_before_router = false;
  /// Number of layers in checkpoints behind the model's own, for multi-token prediction.
  std::int64_t prediction_layers = 0;

  /// Width of the vectors that routed experts get and give.
  [[nodiscard]] std::int64_t expert_hidden_size() const {
    return expert_latent_size > 0 ? expert_latent_size : hidden_size;
  }
  /// Whether MLPs have a gate, and so two projections to the inner width.
  [[nodiscard]] bool has_gates() const { return mlp_activation != MlpActivation::kSquaredRelu; }
  /// Size of a head of values in full and sliding attention.
  [[nodiscard]] std::int64_t value_head_dim() const { return value_dim > 0 ? value_dim : head_dim; }
  /// Common width of queries, keys and values in attention; shorter ones are padded by zeros.
  [[nodiscard]] std::int64_t padded_head_dim() const { return std::max(head_dim, value_head_dim()); }
  /// Rotary embedding of layers with this kind of token mixer.
  [[nodiscard]] const RotaryConfig& rotary_of(AttentionKind kind) const {
    return kind == AttentionKind::kSliding && sliding_rotary ? *sliding_rotary : rotary;
  }
  /// Kind of token mixer whose rotary embedding a layer has.
  [[nodiscard]] AttentionKind rotates_as(int layer) const {
    const auto index = static_cast<std::size_t>(layer);
    const bool is_dense = layers[index] == MlpKind::kDense;
    return is_dense && dense_layers_rotate_as_sliding ? AttentionKind::kSliding : attention[index];
  }
  /// The settings of the model with those values in place of its own that a layer has for itself.
  [[nodiscard]] ModelConfig of_layer(int layer) const;
  [[nodiscard]] int layer_count() const { return static_cast<int>(layers.size()); }
  [[nodiscard]] bool has_mixer(int layer) const {
    return attention[static_cast<std::size_t>(layer)] != AttentionKind::kNone;
  }
  [[nodiscard]] bool has_mlp(int layer) const {
    return layers[static_cast<std::size_t>(layer)] != MlpKind::kNone;
  }
  /// Whether a layer's MLP gets what its token mixer gets.
  [[nodiscard]] bool has_parallel_halves(int layer) const {
    return parallel_halves && has_mixer(layer) && has_mlp(layer);
  }
  /// Whether a layer has a router and its experts.
  [[nodiscard]] bool has_experts(int layer) const {
    const MlpKind mlp = layers[static_cast<std::size_t>(layer)];
    return mlp == MlpKind::kMoe || mlp == MlpKind::kDenseAndMoe;
  }
  /// Whether a layer has a dense MLP and experts side by side.
  [[nodiscard]] bool has_both_mlps(int layer) const {
    return layers[static_cast<std::size_t>(layer)] == MlpKind::kDenseAndMoe;
  }
  [[nodiscard]] int moe_layer_count() const;
  /// Index among all layers of MoE layer number `among`, which is below moe_layer_count().
  [[nodiscard]] std::int64_t moe_layer(std::int64_t among) const;
};

}  // namespace sluice
