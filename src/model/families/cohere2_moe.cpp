#include "model/families/cohere2_moe.hpp"

#include "model/common_config.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice {
namespace {

/// Refuses what the published code knows beside what transformers computes.
void refuse_other_cohere_forms(const ConfigReader& given) {
  const ConfigReader config = given.with(Nulls::kAbsent);
  for (const char* key : {"use_parallel_block", "use_gated_activation"})
    if (!config.boolean({key}, true)) config.refuse(key, "true");
  for (const char* key : {"use_qk_norm", "layer_norm_bias"})
    if (config.boolean({key}, false)) config.refuse(key, "false");
  if (config.number({"rotary_pct"}, 1.0) != 1) config.refuse("rotary_pct", "1");
  expect_text(config, "position_embedding_type", "rope_gptj");
  if (config.has("rope_scaling") && !config.object({"rope_scaling"})->is_empty())
    config.refuse("rope_scaling", "null, and scaling in rope_parameters: transformers ignores it here");
  static_cast<void>(given.positive({"rope_theta"}, 1e4));  // also where another counts
  const auto rotary = config.object({"rope_parameters"});
  const bool is_yarn = rotary && rotary->text({"rope_type"}, "default") == "yarn";
  if (config.contains("rope_parameters") && (!rotary || !rotary->has("rope_theta") ||
                                             (is_yarn && !rotary->has("original_max_position_embeddings"))))
    config.refuse("rope_parameters", "rope_theta and all that its type needs, or no such key");
}

/// Gives windows to all layers but each n-th of the dense ones, and each n-th of those behind them.
void read_cohere_periods(const ConfigReader& config, std::int64_t period_of_dense, ModelConfig& model) {
  const std::int64_t dense = config.integer({"first_k_dense_replace"}, 0, 0, model.layer_count());
  const std::int64_t period = config.integer({"sliding_window_pattern"}, 4);
  for (std::int64_t layer = 0; layer < model.layer_count(); ++layer)
    if (layer < dense ? (layer + 1) % period_of_dense != 0 : (layer - dense + 1) % period != 0)
      model.attention[static_cast<std::size_t>(layer)] = AttentionKind::kSliding;
}

void read_cohere_attention(const ConfigReader& config, ModelConfig& model) {
  const std::int64_t period_of_dense = config.integer({"prefix_dense_sliding_window_pattern"}, 1);
  if (!config.has("layer_types")) read_cohere_periods(config, period_of_dense, model);
  read_windows(config, 4096, model);
  model.rotary.interleaved = true;
  model.sliding_rotary = model.rotary;
  model.rotary.dim = 0;
  model.dense_layers_rotate_as_sliding = period_of_dense == 1;
}

void read_cohere_experts(const ConfigReader& config, ModelConfig& model) {
  read_expert_config(config, "intermediate_size", model);
  const bool is_sigmoid = reads_text(config, "expert_selection_fn", "sigmoid", "softmax");
  // A softmax over the logits of the chosen experts is one over all, divided by the sum over the chosen.
  model.router = {.score = is_sigmoid ? RouterScore::kSigmoid : RouterScore::kSoftmax,
                  .chooses_by_logits = true,
                  .normalize = config.boolean({"norm_topk_prob"}, true) || !is_sigmoid,
                  .knows_balancing_loss = false};
  const std::int64_t shared = config.integer({"num_shared_experts"}, 0, 0, 1024);
  model.shared_expert_intermediate_size = shared * model.expert_intermediate_size;
  if (!reads_text(config, "shared_expert_combination_strategy", "sum", "average") && shared > 0)
    model.mixture_factor = 0.5;
}

}  // namespace

ModelConfig read_cohere2_moe_config(const ConfigReader& config) {
  refuse_other_cohere_forms(config);
  const bool has_rms_norms = config.has("rms_norm_eps");
  if (has_rms_norms) static_cast<void>(config.positive({"layer_norm_eps"}, 1e-5));  // and without an effect
  ModelConfig model =
      read_common_config(config, {.null_key_value_heads = true,
                                  .head_dim = 128,
                                  .padding_token = 0,
                                  .takes_attention_bias = true,
                                  .rms_norm_eps_key = has_rms_norms ? "rms_norm_eps" : "layer_norm_eps",
                                  .rms_norm_eps = 1e-5,
                                  .tie_word_embeddings = true});
  model.layer_norms = !has_rms_norms;
  model.attention_output_bias = model.attention_bias;
  model.parallel_halves = true;
  model.logit_divisor = 1 / config.positive({"logit_scale"}, 0.0625);
  read_cohere_attention(config, model);
  read_cohere_experts(config, model);
  model.intermediate_size =
      config.with(Nulls::kAbsent).integer({"prefix_dense_intermediate_size"}, model.expert_intermediate_size);
  read_first_dense_layers(config, 0, model);
  return model;
}

}  // namespace sluice
