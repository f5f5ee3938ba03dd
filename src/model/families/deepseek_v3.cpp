#include "model/families/deepseek_v3.hpp"

#include "model/latent_config.hpp"
#include "model/manifest_builder.hpp"
#include "model/wrapped_config.hpp"

#include <string>

namespace sluice {
namespace {

constexpr SigmoidRouterDefaults kGroupedRouter{
    .normalize = true, .groups = 8, .chosen_groups = 4, .scale = 2.5};

ModelConfig read_relative(const ConfigReader& config, const CommonDefaults& defaults,
                          const SigmoidRouterDefaults& router) {
  ModelConfig model = read_latent_config(config, defaults);
  if (config.with(Nulls::kAbsent).integer({"moe_layer_freq"}, 1) != 1) config.refuse("moe_layer_freq", "1");
  model.intermediate_size = config.integer({"intermediate_size"});
  read_expert_config(config, "moe_intermediate_size", model);
  read_shared_experts(config, 1, model);
  model.experts_before_router = true;
  read_sigmoid_router(config, router, model);
  read_first_dense_layers(config, 3, model);
  model.prediction_layers = read_prediction_layers(config, "num_nextn_predict_layers",
                                                   config.integer({"num_mtp_layers"}, 1, 0, 1024));
  return model;
}

ModelConfig read_indexed(const ConfigReader& config, const CommonDefaults& defaults,
                         const SigmoidRouterDefaults& router) {
  ModelConfig model = read_relative(config, defaults, router);
  if (config.boolean({"mlp_bias"}, false)) config.refuse("mlp_bias", "false");
  if (config.is_null("q_lora_rank"))
    config.refuse("q_lora_rank", "an integer, as indexers read these queries");
  if (const auto types = read_layer_kinds(config, "layer_types", model))
    for (const std::string& type : *types)
      if (type != "indexed_attention") config.refuse("layer_types", "'indexed_attention' for each layer");
  model.sequence_limit = {config.integer({"index_topk"}, 2048), "index_topk",
                          "the model's indexers leave out tokens of longer sequences"};
  return model;
}

}  // namespace

ModelConfig read_deepseek_v3_config(const ConfigReader& config) {
  return read_relative(config, {.key_value_heads = 128, .null_key_value_heads = true}, kGroupedRouter);
}

ParameterManifest describe_deepseek_v3(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_decoder(config, dtype);
  manifest.add_foreign_part(ForeignPart::kMultiTokenPrediction);
  return manifest;
}

ModelConfig read_kimi_k25_config(const ConfigReader& config) {
  return read_wrapped_config(config, {"kimi_k2", "deepseek_v3"}, TiedBy::kText, read_deepseek_v3_config);
}

ParameterManifest describe_kimi_k25(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_deepseek_v3(config, dtype);
  manifest.add_foreign_part(ForeignPart::kVisionTower);
  manifest.set_published_prefix("language_model.model.", "language_model.");
  return manifest;
}

ModelConfig read_deepseek_v32_config(const ConfigReader& config) {
  return read_indexed(config, {.key_value_heads = 128}, kGroupedRouter);
}

ModelConfig read_glm_moe_dsa_config(const ConfigReader& config) {
  return read_indexed(config, {.key_value_heads = 64, .rms_norm_eps = 1e-5},
                      {.normalize = true, .scale = 2.5});
}

ParameterManifest describe_indexed(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_deepseek_v3(config, dtype);
  manifest.add_foreign_part(ForeignPart::kIndexer);
  return manifest;
}

}  // namespace sluice
