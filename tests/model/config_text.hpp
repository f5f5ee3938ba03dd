// Texts of config.json for tests.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace sluice::test {

/// A mixture-of-experts model of two layers: small, and no size a multiple of another but where it must be.
[[nodiscard]] inline nlohmann::json small_moe_config() {
  return nlohmann::json::parse(R"({
    "model_type": "qwen3_moe", "vocab_size": 29, "hidden_size": 24, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 10, "intermediate_size": 18, "num_hidden_layers": 2,
    "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 14, "norm_topk_prob": true,
    "rope_theta": 10000.0, "rms_norm_eps": 1e-6, "initializer_range": 0.2
  })");
}

/// The same with changes: keys set to null are taken away (RFC 7386).
[[nodiscard]] inline std::string config_with(const nlohmann::json& changes = nlohmann::json::object()) {
  nlohmann::json config = small_moe_config();
  config.merge_patch(changes);
  return config.dump();
}

/// What makes it a Qwen3.5: a delta net, then full attention, and a shared expert.
[[nodiscard]] inline nlohmann::json hybrid_changes() {
  return nlohmann::json::parse(R"({
    "model_type": "qwen3_5_moe_text", "layer_types": ["linear_attention", "full_attention"],
    "head_dim": 8, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
    "rope_theta": null, "norm_topk_prob": null, "intermediate_size": null, "shared_expert_intermediate_size": 10,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 6, "linear_value_head_dim": 5,
    "linear_conv_kernel_dim": 4
  })");
}

/// What makes it a model of `model_type`, which has Kimi delta attention in the first layer, and latent attention in the
/// second.
[[nodiscard]] inline nlohmann::json kimi_changes(const std::string& model_type, int linear_heads) {
  nlohmann::json changes = nlohmann::json::parse(R"({
    "layer_types": ["linear_attention", "full_attention"], "linear_head_dim": 6, "kv_lora_rank": 8, "qk_nope_head_dim": 4,
    "qk_rope_head_dim": 2, "v_head_dim": 4, "num_key_value_heads": 4, "pad_token_id": 5
  })");
  changes["model_type"] = model_type;
  changes["linear_num_heads"] = linear_heads;
  return changes;
}

/// What makes it a Command A+: a dense layer that rotates without a window, and one with a
/// window, experts and a shared one; in both attention and MLP get the same LayerNorm.
[[nodiscard]] inline nlohmann::json parallel_changes() {
  return nlohmann::json::parse(R"({
    "model_type": "cohere2_moe", "first_k_dense_replace": 1, "rms_norm_eps": null, "moe_intermediate_size": null,
    "num_shared_experts": 1, "prefix_dense_intermediate_size": 20, "sliding_window": 5,
    "logit_scale": 0.5, "pad_token_id": null
  })");
}

}  // namespace sluice::test
