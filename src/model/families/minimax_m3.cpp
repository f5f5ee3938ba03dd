#include "model/families/minimax_m3.hpp"

#include "model/block_indexer_config.hpp"
#include "model/common_config.hpp"
#include "model/manifest_builder.hpp"
#include "model/wrapped_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace sluice {
namespace {

/// Spellings of which layers have experts.
constexpr LayerSpellings kMlps{"mlp_layer_types", "dense", "sparse", "moe_layer_freq"};

/// Refuses what the published code knows beside what is computed here.
void refuse_other_m3_forms(const ConfigReader& given) {
  const ConfigReader config = given.with(Nulls::kAbsent);
  expect_text(config, "scoring_func", "sigmoid");
  expect_text(config, "qk_norm_type", "per_head");
  for (const char* key : {"use_gemma_norm", "use_qk_norm", "use_routing_bias"})
    if (!config.boolean({key}, true)) config.refuse(key, "true");
  if (config.boolean({"attention_output_gate"}, false)) config.refuse("attention_output_gate", "false");
  if (config.integer({"n_shared_experts"}, 1) != 1) config.refuse("n_shared_experts", "1");
  if (config.number({"swiglu_beta"}, 1.0) != 1) config.refuse("swiglu_beta", "1");
  if (given.number({"router_jitter_noise"}, 0.0) != 0) config.refuse("router_jitter_noise", "0");
}

/// Gate and up of dense MLPs and shared experts are one matrix in `in`.
ParameterManifest describe_minimax_m3(const ModelConfig& config, DType dtype, JoinedIn in) {
  ParameterManifest manifest = describe_decoder(config, dtype);
  for (int layer = 0; layer < config.layer_count(); ++layer) {
    const blocks::SwigluNames& names = mlp_of_all_tokens(config, layer);
    const std::string block(names.up_proj.substr(0, names.up_proj.find("up_proj")));
    publish_as(layer_tensor_name(layer, block + "gate_up_proj.weight"),
               {layer_tensor_name(layer, names.gate_proj), layer_tensor_name(layer, names.up_proj)}, manifest,
               in);
  }
  manifest.add_foreign_part(ForeignPart::kIndexer);
  manifest.add_foreign_part(ForeignPart::kMultiTokenPrediction);
  return manifest;
}

}  // namespace

ModelConfig read_minimax_m3_vl_text_config(const ConfigReader& config) {
  refuse_other_m3_forms(config);
  ModelConfig model = read_common_config(config, {.key_value_heads = 4,
                                                  .head_dim = 128,
                                                  .partial_rotary_factor = 1.0,
                                                  .own_activation = "swigluoai",
                                                  .rope_theta = 5e6});
  // transformers 5.24 reads partial_rotary_factor alone; published files have both.
  if (config.contains("rotary_dim") && config.integer({"rotary_dim"}) != model.rotary.dim)
    config.refuse(
        "rotary_dim",
        fmt::format("{}, what partial_rotary_factor, in rope_parameters or not, makes of head_dim = {}",
                    model.rotary.dim, model.head_dim));
  model.query_key_norm = QueryKeyNorm::kPerHead;
  model.zero_centred_norms = true;
  model.intermediate_size = config.integer({"dense_intermediate_size"}, 12'288);
  read_expert_config(config, "intermediate_size", model);
  model.shared_expert_intermediate_size = config.integer({"shared_intermediate_size"}, 3072);
  const double limit = config.positive({"swiglu_limit"}, 7.0);
  model.swiglu_limits = {.experts = limit, .shared_expert = limit, .dense = limit};
  model.swiglu_slope = config.positive({"swiglu_alpha"}, 1.702);
  model.router = {.score = RouterScore::kSigmoid,
                  .has_correction_bias = true,
                  .normalize = true,
                  .scale = config.positive({"routed_scaling_factor"}, 2.0)};
  const std::vector<bool> all(model.layers.size(), true);
  const std::vector<bool> has_experts = read_layers_of_kind(config, config, kMlps, all, model);
  for (std::size_t layer = 0; layer < has_experts.size(); ++layer)
    model.layers[layer] = has_experts[layer] ? MlpKind::kMoe : MlpKind::kDense;
  model.sequence_limit = read_block_indexers(config, "minimax_m3_sparse", model);
  model.prediction_layers = std::max(read_prediction_layers(config, "num_mtp_modules", 0),
                                     read_prediction_layers(config, "num_nextn_predict_layers", 0));
  return model;
}

ModelConfig read_minimax_m3_vl_config(const ConfigReader& config) {
  return read_wrapped_config(config, {"minimax_m3_vl_text"}, TiedBy::kBoth, read_minimax_m3_vl_text_config);
}

ParameterManifest describe_minimax_m3_vl_text(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_minimax_m3(config, dtype, JoinedIn::kBoth);
  manifest.set_fused_experts();
  return manifest;
}

ParameterManifest describe_minimax_m3_vl(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_minimax_m3(config, dtype, JoinedIn::kTree);
  manifest.set_published_experts(kMixtralExperts);
  manifest.add_foreign_part(ForeignPart::kVisionTower);
  manifest.set_published_prefix("model.language_model.");
  manifest.set_renamed_prefix("language_model.model.", "language_model.");
  return manifest;
}

}  // namespace sluice
