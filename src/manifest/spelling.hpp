// One tensor, several names: transformers' text-model tree, in which manifests are written, and what
// published checkpoints say instead.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

/// Names in a layer's mixture of experts: `layers.3.BLOCK.experts.7.GATE.weight`,
/// `layers.3.BLOCK.ROUTER.weight`, `layers.3.BLOCK.BIAS` for the bias of the choice,
/// `layers.3.BLOCK.SHARED.up_proj.weight`.
struct ExpertSpelling {
  std::string_view block, gate, up, down, bias;
  std::string_view router = "gate", shared = "shared_experts";
};
/// Names of transformers' module tree, and of published checkpoints of Qwen and OLMoE.
inline constexpr ExpertSpelling kPlainExperts{"mlp", "gate_proj", "up_proj", "down_proj",
                                              "gate.e_score_correction_bias"};
/// Names in published checkpoints of Mixtral and MiniMax-M2. transformers reads and writes them, whatever its
/// module tree says.
inline constexpr ExpertSpelling kMixtralExperts{"block_sparse_moe", "w1", "w3", "w2",
                                                "e_score_correction_bias"};
/// Names in published checkpoints of ERNIE 4.5.
inline constexpr ExpertSpelling kErnieExperts{"mlp", "gate_proj", "up_proj", "down_proj",
                                              "moe_statics.e_score_correction_bias"};
/// Names in published checkpoints of Hy3.
inline constexpr ExpertSpelling kHy3Experts{"mlp",         "gate_proj",   "up_proj",   "down_proj",
                                            "expert_bias", "router.gate", "shared_mlp"};

/// Names in published checkpoints of Ling and Ring 2.0.
inline constexpr ExpertSpelling kBailingExperts{"mlp", "gate_proj", "up_proj", "down_proj",
                                                "gate.expert_bias"};

/// The name in transformers' text-model tree, whatever wrapper the checkpoint was saved from and however it
/// spells its experts: "model.language_model.norm.weight" and "language_model.model.norm.weight" are
/// "model.norm.weight", `block_sparse_moe.experts.7.w1.weight` is `mlp.experts.7.gate_proj.weight`.
[[nodiscard]] std::string plain_name(std::string_view checkpoint_name);

/// A plain name with the router and the experts of its layer spelled in another way; other names as they are.
[[nodiscard]] std::string spelled(std::string plain_name, const ExpertSpelling& experts);

}  // namespace sluice
