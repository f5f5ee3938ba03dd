// A decoder's shape as its config.json tells it, in one spelling for all architectures.
#pragma once

#include "base/dtype.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// Feed-forward part of a layer.
enum class MlpKind : std::uint8_t { kDense, kMoe };

struct ModelConfig {
  std::string model_type;  ///< "qwen3_moe"
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t attention_heads = 0;
  std::int64_t key_value_heads = 0;    ///< divides attention_heads
  std::int64_t head_dim = 0;           ///< even
  std::int64_t intermediate_size = 0;  ///< width of dense feed-forward layers
  std::vector<MlpKind> layers;         ///< one per layer
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
  bool normalize_expert_weights = false;  ///< norm_topk_prob

  [[nodiscard]] int layer_count() const { return static_cast<int>(layers.size()); }
  [[nodiscard]] int moe_layer_count() const;
};

}  // namespace sluice
