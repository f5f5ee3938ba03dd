// A decoder's shape as its config.json tells it, in one spelling for all architectures.
#pragma once

#include "base/dtype.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// Feed-forward part of a layer.
enum class MlpKind : std::uint8_t { kDense, kMoe };
/// What mixes the tokens of a layer: softmax attention, or a gated delta net.
enum class AttentionKind : std::uint8_t { kFull, kLinear };

/// Gated delta net; zero without linear layers.
struct LinearAttentionConfig {
  std::int64_t key_heads = 0;  ///< also of the queries; divides value_heads
  std::int64_t value_heads = 0;
  std::int64_t key_head_dim = 0;
  std::int64_t value_head_dim = 0;
  std::int64_t conv_kernel_size = 0;  ///< tokens that the causal convolution sees
};

struct ModelConfig {
  std::string model_type;  ///< "qwen3_moe"
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t attention_heads = 0;
  std::int64_t key_value_heads = 0;      ///< divides attention_heads
  std::int64_t head_dim = 0;             ///< even
  std::int64_t rotary_dim = 0;           ///< of head_dim, how much the rotary embedding turns; even
  bool attention_output_gate = false;    ///< of full attention
  bool zero_centred_norms = false;       ///< norms multiply with 1 + weight; a delta net's own does not
  std::int64_t intermediate_size = 0;    ///< width of dense feed-forward layers
  std::vector<MlpKind> layers;           ///< one per layer
  std::vector<AttentionKind> attention;  ///< one per layer
  LinearAttentionConfig linear_attention;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
  DType published_dtype =
      DType::kBFloat16;  ///< of a checkpoint's weights, as config.json says; files may differ

  // Mixture of experts; zero without MoE layers.
  std::int64_t experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t expert_intermediate_size = 0;
  std::int64_t shared_expert_intermediate_size = 0;  ///< of the expert that every token passes; 0 for none
  bool normalize_expert_weights = false;             ///< norm_topk_prob

  [[nodiscard]] int layer_count() const { return static_cast<int>(layers.size()); }
  [[nodiscard]] int moe_layer_count() const;
};

}  // namespace sluice
