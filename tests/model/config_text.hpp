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

}  // namespace sluice::test
