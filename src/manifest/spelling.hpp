// Spellings of tensor names: those of transformers' text-model tree, which manifests use, and those of
// published checkpoints.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

/// Spelling of the names in a layer's mixture of experts: `layers.3.BLOCK.experts.7.GATE.weight`,
/// `layers.3.BLOCK.ROUTER.weight`, `layers.3.BLOCK.BIAS` for the correction bias,
/// `layers.3.BLOCK.SHARED.up_proj.weight`, `layers.3.BLOCK.FUSED_DOWN` for a projection of all experts.
struct ExpertSpelling {
  std::string_view block, gate, up, down, bias;
  std::string_view router = "gate", shared = "shared_experts";
  std::string_view fused_gate_up = "experts.gate_up_proj", fused_down = "experts.down_proj";
  std::string_view fused_gate = "experts.gate_proj", fused_up = "experts.up_proj";
};
/// Names of transformers' module tree, and of published checkpoints of Qwen and OLMoE.
inline constexpr ExpertSpelling kPlainExperts{"mlp", "gate_proj", "up_proj", "down_proj",
                                              "gate.e_score_correction_bias"};
/// Names in published checkpoints of Mixtral and MiniMax-M2. transformers reads and writes them, whatever its
/// module tree says.
inline constexpr ExpertSpelling kMixtralExperts{"block_sparse_moe", "w1", "w3", "w2",
                                                "e_score_correction_bias"};
/// Names in published checkpoints of Kimi Linear.
inline constexpr ExpertSpelling kKimiExperts{"block_sparse_moe", "w1", "w3", "w2",
                                             "gate.e_score_correction_bias"};
/// Names in published checkpoints of ERNIE 4.5.
inline constexpr ExpertSpelling kErnieExperts{"mlp", "gate_proj", "up_proj", "down_proj",
                                              "moe_statics.e_score_correction_bias"};
/// Names in published checkpoints of Hy3.
inline constexpr ExpertSpelling kHy3Experts{"mlp",         "gate_proj",   "up_proj",   "down_proj",
                                            "expert_bias", "router.gate", "shared_mlp"};

/// Names in published checkpoints of Hunyuan, and in its module tree.
inline constexpr ExpertSpelling kHunyuanExperts{
    "mlp", "gate_proj", "up_proj", "down_proj", "gate.e_score_correction_bias", "gate.wg", "shared_mlp"};

/// Names in published checkpoints of Trinity, and in its module tree.
inline constexpr ExpertSpelling kAfmoeExperts{"mlp",       "gate_proj",   "up_proj",
                                              "down_proj", "expert_bias", "router.gate"};

/// Names in published checkpoints of Ling and Ring 2.0.
inline constexpr ExpertSpelling kBailingExperts{"mlp", "gate_proj", "up_proj", "down_proj",
                                                "gate.expert_bias"};
/// Names in published checkpoints of K-EXAONE.
inline constexpr ExpertSpelling kExaoneExperts{"mlp", "gate_proj", "up_proj", "down_proj",
                                               "e_score_correction_bias"};
/// Names in published checkpoints of Laguna.
inline constexpr ExpertSpelling kLagunaExperts{"mlp", "gate_proj", "up_proj", "down_proj",
                                               "experts.e_score_correction_bias"};
/// Names in published checkpoints of LFM2, and in its module tree.
inline constexpr ExpertSpelling kLfm2Experts{
    .block = "feed_forward", .gate = "w1", .up = "w3", .down = "w2", .bias = "expert_bias"};
/// Names of Granite's module tree, and those of its published checkpoints.
inline constexpr ExpertSpelling kGraniteTree{.block = "block_sparse_moe",
                                             .gate = "gate_proj",
                                             .up = "up_proj",
                                             .down = "down_proj",
                                             .bias = "e_score_correction_bias",
                                             .router = "router"};
inline constexpr ExpertSpelling kGraniteExperts{.block = "block_sparse_moe",
                                                .gate = "gate_proj",
                                                .up = "up_proj",
                                                .down = "down_proj",
                                                .bias = "e_score_correction_bias",
                                                .router = "router.layer",
                                                .fused_gate_up = "input_linear.weight",
                                                .fused_down = "output_linear.weight"};
/// Names of Nemotron-H's module tree, and of its published checkpoints.
inline constexpr ExpertSpelling kNemotronExperts{"mixer", "gate_proj", "up_proj", "down_proj",
                                                 "gate.e_score_correction_bias"};
/// Names in published checkpoints of Step 3.5 and 3.7.
inline constexpr ExpertSpelling kStepExperts{.block = "moe",
                                             .gate = "gate_proj",
                                             .up = "up_proj",
                                             .down = "down_proj",
                                             .bias = "router_bias",
                                             .fused_down = "down_proj.weight",
                                             .fused_gate = "gate_proj.weight",
                                             .fused_up = "up_proj.weight"};

/// Plain name of a checkpoint tensor: its name in transformers' text-model tree, whatever wrapper and
/// spelling the checkpoint has. "model.language_model.norm.weight", "language_model.model.norm.weight" and
/// "backbone.norm.weight" become "model.norm.weight", `block_sparse_moe.experts.7.w1.weight` becomes
/// `mlp.experts.7.gate_proj.weight`.
[[nodiscard]] std::string plain_name(std::string_view checkpoint_name);

/// A plain name with the router and the experts of its layer in another spelling; other names stay as they
/// are.
[[nodiscard]] std::string spelled(std::string plain_name, const ExpertSpelling& experts);

}  // namespace sluice
