#include "model/families/mistral4.hpp"

#include "base/error.hpp"
#include "model/latent_config.hpp"
#include "model/manifest_builder.hpp"
#include "model/rotary_config.hpp"
#include "model/wrapped_config.hpp"

namespace sluice {
namespace {

/// Rotary settings of Mistral4Config, for a config.json without any.
constexpr const char* kRope =
    R"({"type": "yarn", "rope_theta": 10000.0, "factor": 128.0, "original_max_position_embeddings": 8192, "beta_fast": 32.0,
        "beta_slow": 1.0, "mscale_all_dim": 1.0, "mscale": 1.0, "llama_4_scaling_beta": 0.1})";

/// Limit below which queries do not grow; they grow by get_llama_4_attn_scale() of transformers' ministral3:
/// 1 + beta * log(1 + floor(position / original length)).
SequenceLimit read_query_growth(const ConfigReader& config, const RotaryConfig& rotary) {
  constexpr const char* kLength = "original_max_position_embeddings";
  const std::optional<ConfigReader> rope = rotary_settings(config, kRope);
  if (!rope) config.refuse("rope_parameters", "settings of the embedding, or no such key");
  if (rotary.scaling == RotaryScaling::kNone)
    rope->refuse("rope_type", "'yarn' or 'linear', as transformers has no plain embedding for this family");
  if (rope->number({"llama_4_scaling_beta"}, 0.0) == 0) return {};
  return {rope->integer({kLength}), kLength, "queries of later positions are scaled by llama_4_scaling_beta"};
}

/// Reads the router. Mistral4TopkRouter sets the scores of groups that are not chosen to 0, below which no
/// softmax score lies, so that leaving these groups out chooses the same experts.
void read_mistral_router(const ConfigReader& config, ModelConfig& model) {
  model.router = {.normalize = config.boolean({"norm_topk_prob"}, true),
                  .epsilon = 1e-20,
                  .scale = config.positive({"routed_scaling_factor"}, 1.0),
                  .knows_balancing_loss = false};
  read_expert_groups(config, 1, 1, model);
}

/// Refuses settings in the old spelling without a share of turning dimensions: transformers then turns whole heads,
/// which its forward pass cannot do.
void require_turning_share(const ConfigReader& config) {
  constexpr const char* kShare = "partial_rotary_factor";
  const std::optional<ConfigReader> old = config.object({"rope_scaling"});
  if (config.contains("rope_parameters") || !old || config.contains(kShare) || old->contains(kShare)) return;
  fail(ExitCode::kBadData,
       "{}: key '{}' is missing beside rope_scaling; take config.json as the model was published",
       config.name(), kShare);
}

}  // namespace

ModelConfig read_mistral4_config(const ConfigReader& config) {
  require_turning_share(config);
  const std::int64_t turning = config.integer({"qk_rope_head_dim"});
  const std::int64_t head = turning + config.integer({"qk_nope_head_dim"});
  ModelConfig model = read_latent_config(
      config, {.key_value_heads = 32,
               .null_key_value_heads = true,
               .head_dim = head,
               .padding_token = 11,
               .partial_rotary_factor = static_cast<double>(turning) / static_cast<double>(head),
               .rope_parameters = kRope});
  model.sequence_limit = read_query_growth(config, model.rotary);
  model.intermediate_size = config.integer({"intermediate_size"});
  read_expert_config(config, "moe_intermediate_size", model);
  read_shared_experts(config, 1, model);
  model.experts_before_router = true;
  read_mistral_router(config, model);
  read_first_dense_layers(config, 0, model);
  return model;
}

ModelConfig read_mistral3_config(const ConfigReader& config) {
  return read_wrapped_config(config, {"mistral4"}, TiedBy::kText, read_mistral4_config);
}

ParameterManifest describe_mistral3(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_decoder(config, dtype);
  manifest.add_foreign_part(ForeignPart::kVisionTower);
  manifest.set_published_prefix("language_model.model.", "language_model.");
  return manifest;
}

}  // namespace sluice
