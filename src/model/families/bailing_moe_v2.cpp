#include "model/families/bailing_moe_v2.hpp"

#include "model/blocks/attention.hpp"
#include "model/blocks/embedding_and_head.hpp"
#include "model/common_config.hpp"
#include "model/manifest_builder.hpp"
#include "model/rotary_config.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace sluice {
namespace {

constexpr std::int64_t kDefaultHeadDim = 128;

/// Refuses what the published code knows beside what is computed here.
void refuse_other_forms(const ConfigReader& given) {
  const ConfigReader config = given.with(Nulls::kAbsent);
  for (const char* key : {"use_bias", "use_qkv_bias", "norm_head", "rope_interleave"})
    if (config.boolean({key}, false)) config.refuse(key, "false");
  for (const char* key : {"moe_router_enable_expert_bias", "norm_topk_prob", "use_rmsnorm"})
    if (!config.boolean({key}, true)) config.refuse(key, "true");
  for (const char* key : {"embedding_dropout", "output_dropout"})
    if (config.number({key}, 0.0) != 0.0) config.refuse(key, "0");
  expect_text(config, "score_function", "sigmoid");
  expect_text(config, "router_dtype", "fp32");
}

/// Refuses different values of rotary_dim and partial_rotary_factor, which published models use for the same
/// thing.
void require_one_rotary_width(const ConfigReader& config, const ModelConfig& model) {
  if (config.with(Nulls::kAbsent).integer({"rotary_dim"}, model.rotary.dim) != model.rotary.dim)
    config.refuse("rotary_dim", fmt::format("{}, as partial_rotary_factor says", model.rotary.dim));
}

void publish_attention(const ModelConfig& config, int layer, ParameterManifest& manifest) {
  namespace names = blocks::attention;
  const auto name = [&](std::string_view tensor) { return fmt::format("model.layers.{}.{}", layer, tensor); };
  publish_as(name("attention.query_key_value.weight"),
             {name(names::kQProj), name(names::kKProj), name(names::kVProj)}, manifest);
  publish_as(name("attention.dense.weight"), {name(names::kOProj)}, manifest);
  if (config.query_key_norm == QueryKeyNorm::kNone) return;
  publish_as(name("attention.query_layernorm.weight"), {name(names::kQNorm)}, manifest);
  publish_as(name("attention.key_layernorm.weight"), {name(names::kKNorm)}, manifest);
}

}  // namespace

void read_bailing_experts(const ConfigReader& config, const SigmoidRouterDefaults& router,
                          ModelConfig& model) {
  read_expert_config(config, "moe_intermediate_size", model);
  read_shared_experts(config, 1, model);
  constexpr const char* kSharedWidth = "moe_shared_expert_intermediate_size";
  const std::int64_t width = model.shared_expert_intermediate_size;
  if (config.with(Nulls::kAbsent).integer({kSharedWidth}, width) != width)
    config.refuse(kSharedWidth, fmt::format("num_shared_experts x moe_intermediate_size = {}", width));
  model.experts_before_router = true;
  read_sigmoid_router(config, router, model);
}

ModelConfig read_bailing_moe_v2_config(const ConfigReader& config) {
  refuse_other_forms(config);
  ModelConfig model =
      read_common_config(config, {.key_value_heads = 4,
                                  .head_dim = kDefaultHeadDim,
                                  .padding_token = 156'892,
                                  .partial_rotary_factor = rotary_dim_share(config, kDefaultHeadDim),
                                  .rope_theta = 600'000});
  require_one_rotary_width(config, model);
  if (config.boolean({"use_qk_norm"}, true)) model.query_key_norm = QueryKeyNorm::kPerHead;
  model.intermediate_size = config.integer({"intermediate_size"});
  read_bailing_experts(config, {.groups = 8, .chosen_groups = 4, .scale = 1}, model);
  model.router.normalize = model.experts_per_token > 1;
  read_first_dense_layers(config, 1, model);
  model.prediction_layers = read_prediction_layers(config, "num_nextn_predict_layers", 0);
  return model;
}

ParameterManifest describe_bailing_moe_v2(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_decoder(config, dtype);
  manifest.set_published_experts(kBailingExperts);
  publish_as("model.word_embeddings.weight", {std::string(blocks::embedding_and_head::kEmbedding)}, manifest);
  for (int layer = 0; layer < config.layer_count(); ++layer) publish_attention(config, layer, manifest);
  manifest.add_foreign_part(ForeignPart::kMultiTokenPrediction);
  return manifest;
}

}  // namespace sluice
