// The decoder as a list of blocks: embedding, layers, head. Functions of (inputs, parameter views); when to
// gather, recompute and reduce is the trainer's business.
#pragma once

#include "decoder/attention_block.hpp"
#include "decoder/delta_net_block.hpp"
#include "decoder/kimi_delta_block.hpp"
#include "decoder/latent_attention_block.hpp"
#include "decoder/mamba2_block.hpp"
#include "decoder/mlp_blocks.hpp"
#include "decoder/parameter_views.hpp"
#include "decoder/rotary_tables.hpp"
#include "decoder/sequence_cache.hpp"
#include "decoder/short_conv_block.hpp"
#include "model/model_config.hpp"
#include "ops/documents.hpp"
#include "ops/embedding.hpp"
#include "ops/loss.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

namespace sluice {

/// Weights of one layer.
struct LayerParameters {
  ModelConfig config;  ///< settings of the model, with the layer's own
  /// Weights [hidden] of the norms before the mixer and before the MLP; undefined for a half that the layer has not,
  /// and for an MLP that gets what the mixer gets.
  ops::Parameter input_norm, mlp_norm;
  /// Weights [hidden] of the norms behind them; undefined for none.
  ops::Parameter behind_mixer, behind_mlp;
  /// Weights [hidden] of the norms of a dense MLP and experts side by side; undefined for other layers.
  ops::Parameter behind_dense, before_experts, behind_experts;
  at::Tensor scalar;  ///< constant that the layer's result is multiplied by, [1] float32; undefined for none
  std::variant<std::monostate, AttentionParameters, LatentAttentionParameters, DeltaNetParameters,
               ShortConvParameters, Mamba2Parameters, KimiDeltaParameters>
      mixer{};
  std::optional<DenseMlpParameters> dense{};
  std::optional<MoeParameters> moe{};
};

/// What a layer keeps from the first pass of a micro-batch for a later one: choices that a recompute must
/// repeat, and results that are costly to repeat.
struct SavedForRecompute {
  RoutingRecord routing;           ///< routing of an MoE layer
  ops::AttentionRecord attention;  ///< attention's record, in a layer with attention
};

/// Hidden states between the halves of a layer, for tokens x.
struct Halfway {
  at::Tensor hidden;  ///< x plus what the token mixer made of them
  /// What mixer and MLP get, of the same shape: x, normalised, where the halves are parallel; otherwise undefined, as
  /// the MLP gets `hidden`, normalised.
  at::Tensor normalised{};

  /// The same as leaves of a graph.
  [[nodiscard]] Halfway leaves() const;
  /// Those that are defined.
  [[nodiscard]] std::vector<at::Tensor> tensors() const;
};

class Decoder {
 public:
  /// Takes views of the parameters from `views`, whose units must be bound while a function uses them: the
  /// embedding for embed(); a layer's dense and expert units for layer() and its backward; the final unit
  /// (and with tied embeddings the embedding) for head(). Tokens have positions below `positions`. `dropout`
  /// of LoRA adapters, null for none, must outlive the decoder and all graphs. `vocabulary`, which must outlive the
  /// decoder: the exchange of a head that several ranks have between them; null for none.
  Decoder(const ModelConfig& config, const ParameterViews& views, std::int64_t positions,
          ops::VocabularyExchange* vocabulary, const ops::Dropout* dropout = nullptr,
          Adapters adapters = Adapters::kUsed);

  /// Embeddings [..., hidden] of token ids [...] int64.
  [[nodiscard]] at::Tensor embed(const at::Tensor& ids) const;
  /// embed() by the rows of the table that these ids need.
  [[nodiscard]] at::Tensor embed(const at::Tensor& ids, const ops::TableRows& rows) const;
  /// Adds the gradient of the embedding table for d_out [b, L, hidden].
  void embed_backward(const at::Tensor& ids, const at::Tensor& d_out) const;
  /// embed_backward() into given rows of the gradient, wherever they lie in memory.
  void embed_backward(const at::Tensor& ids, const at::Tensor& d_out, const ops::TableRows& rows) const;

  /// The first half of a layer: x [b, L, hidden] plus the result of its token mixer, of the same
  /// shape; x itself if the layer has none. A graph is kept if x requires a gradient. `record` as in
  /// ops::attention(). In a pass for the graph alone the sum is undefined numbers.
  [[nodiscard]] Halfway token_mixer(int index, const at::Tensor& x, const ops::Documents& documents,
                                    ops::AttentionRecord& record,
                                    ops::Purpose purpose = ops::Purpose::kOutput) const;
  /// The result of the first half for x once more, without its graph: `mixed` is the sum that it has given.
  [[nodiscard]] Halfway halfway(int index, const at::Tensor& x, const at::Tensor& mixed) const;

  /// The first half of a layer for the newest tokens x [T, hidden] of some sequences, with a result of the
  /// same shape; `cache` has their earlier tokens. `rotary`: rotary_rows() of these parts. Records no graph.
  [[nodiscard]] Halfway token_mixer(int index, const at::Tensor& x, std::span<const SequencePart> parts,
                                    const RotaryTables& rotary, SequenceCache& cache) const;
  /// Rotary tables with a row for each token of the parts.
  [[nodiscard]] RotaryTables rotary_rows(std::span<const SequencePart> parts) const;

  /// The second half of a layer: `from.hidden` [b, L, hidden] plus the result of its MLP, of the same shape;
  /// `from.hidden` itself if the layer has none.
  /// Collective as moe_block() where the layer has experts; arguments as there, with `d_out` [b, L, hidden].
  /// With `d_out`, in a pass for the graph alone, the result is undefined numbers; where the halves are parallel, so
  /// may `from.hidden` be.
  [[nodiscard]] at::Tensor mlp_sublayer(int index, const Halfway& from, RoutingRecord& record,
                                        RoutingSums& sums, const at::Tensor& probability_grad,
                                        ops::TokenExchange& exchange, const at::Tensor& d_out = {}) const;

  /// Both halves of a layer: its output for x [b, L, hidden], of the same shape.
  [[nodiscard]] at::Tensor layer(int index, const at::Tensor& x, const ops::Documents& documents,
                                 SavedForRecompute& record, RoutingSums& sums,
                                 const at::Tensor& probability_grad, ops::TokenExchange& exchange) const {
    return mlp_sublayer(index, token_mixer(index, x, documents, record.attention), record.routing, sums,
                        probability_grad, exchange);
  }

  /// Takes part in the collectives of layer() and of its backward without tokens of its own. Does nothing for
  /// a dense layer.
  void participate_without_tokens(int index, ops::TokenExchange& exchange) const;
  void participate_without_tokens_backward(int index, ops::TokenExchange& exchange) const;

  /// Zero routing sums for a layer; undefined tensors for a dense layer.
  [[nodiscard]] RoutingSums no_routing(int index) const;

  struct Head {
    at::Tensor losses;  ///< loss of each token [b, L] float64; 0 where the target is ops::kNoTarget
    /// [b, L, hidden] gradient of the sum of coefficient * loss; undefined with ops::NoLossGradient
    at::Tensor d_x;
    at::Tensor greedy;                          ///< ops::CrossEntropy::greedy, [b, L]
    ops::TokenDistribution distribution{};      ///< ops::CrossEntropy::distribution, of b * L tokens
    std::optional<ops::TaughtLosses> taught{};  ///< ops::CrossEntropy::taught, of b * L tokens
  };
  /// Final norm, head and cross-entropy of x [b, L, hidden] against targets [b, L]. With coefficients, of the
  /// b * L tokens in order, also computes d_x, and adds the gradients of the parameters to their views. `beside`:
  /// what else is made of the same logits, of the b * L tokens in order. Collective over the ranks that have the head
  /// between them, if several do.
  [[nodiscard]] Head head(const at::Tensor& x, const at::Tensor& targets,
                          const ops::LossCoefficients& coefficients,
                          const ops::BesideTargets& beside = {}) const;
  /// Takes part in the collectives of head() without tokens of its own.
  void serve_head(const ops::LossCoefficients& coefficients, const ops::BesideTargets& beside = {}) const;

  /// Logits [L, vocabulary] float32 of a few tokens x [L, hidden], perhaps of none. Collective as head().
  [[nodiscard]] at::Tensor logits(const at::Tensor& x) const;

  /// Hidden states [0, hidden] of no token.
  [[nodiscard]] at::Tensor no_tokens() const;

  [[nodiscard]] const ModelConfig& config() const { return config_; }
  /// The device of its parameters, on which its inputs have to be.
  [[nodiscard]] at::Device device() const { return device_; }

 private:
  [[nodiscard]] const LayerParameters& parameters(int index) const {
    return layers_[static_cast<std::size_t>(index)];
  }
  /// Embeddings [ids..., hidden] for looked-up rows [T, hidden].
  [[nodiscard]] at::Tensor embedded(const at::Tensor& ids, const at::Tensor& rows) const;
  /// Gradient of looked-up rows [T, hidden] for the gradient d_out [..., hidden] of embed().
  [[nodiscard]] at::Tensor lookup_gradient(const at::Tensor& d_out) const;
  /// Hidden states x plus `factor` times what a token mixer or an MLP made of them, of the same shape, normalised if
  /// `norm` is defined.
  [[nodiscard]] at::Tensor with_branch(const at::Tensor& x, const at::Tensor& branch,
                                       const ops::Parameter& norm, double factor) const;
  /// Result of a first half: `mixed` is the sum, `normalised` what the mixer got.
  [[nodiscard]] Halfway halfway_of(int index, at::Tensor mixed, at::Tensor normalised) const;
  /// What the MLP of a layer gets, as rows [tokens, hidden].
  [[nodiscard]] at::Tensor mlp_input(int index, const Halfway& from) const;
  /// What the head multiplies, for the last hidden states x [..., hidden], of the same shape.
  [[nodiscard]] at::Tensor head_input(const at::Tensor& x) const;

  /// What the MLP of a layer with experts adds to `from.hidden` [b, L, hidden], as with_branch() adds it; arguments
  /// as those of mlp_sublayer().
  [[nodiscard]] at::Tensor experts_sublayer(int index, const Halfway& from, RoutingRecord& record,
                                            RoutingSums& sums, const at::Tensor& probability_grad,
                                            ops::TokenExchange& exchange, const at::Tensor& d_out) const;

  [[nodiscard]] float logit_cap() const { return static_cast<float>(config_.logit_cap); }

  ModelConfig config_;
  double embedding_factor_;  ///< factor of embeddings, as it is rounded
  ops::Parameter embedding_, final_norm_;
  ops::Weight head_;
  std::vector<LayerParameters> layers_;
  RotaryTables rotary_;
  at::Device device_;
  ops::VocabularyExchange* vocabulary_;
};

}  // namespace sluice
