#include "model/families/laguna.hpp"

#include "model/blocks/attention.hpp"
#include "model/blocks/shared_expert.hpp"
#include "model/common_config.hpp"
#include "model/manifest_builder.hpp"
#include "model/rotary_config.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {
namespace {

/// Rotary settings of LagunaConfig, for a config.json without any.
constexpr const char* kLagunaRotary =
    R"({"full_attention": {"rope_type": "default", "rope_theta": 500000.0, "partial_rotary_factor": 0.5},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}})";

void read_heads_by_layer(const ConfigReader& config, ModelConfig& model) {
  constexpr const char* kHeads = "num_attention_heads_per_layer";
  if (!config.has(kHeads)) return;
  const std::vector<std::int64_t> heads = config.integers({kHeads});
  if (std::ssize(heads) != model.layer_count())
    config.refuse(kHeads, fmt::format("one for each of {} layers", model.layer_count()));
  for (const std::int64_t count : heads) {
    if (count < 1 || count > 65'536 || count % model.key_value_heads != 0)
      config.refuse(kHeads, fmt::format("multiples of num_key_value_heads = {}", model.key_value_heads));
    model.heads_by_layer.push_back({count, model.key_value_heads, model.head_dim});
  }
}

void read_gate(const ConfigReader& config, ModelConfig& model) {
  constexpr const char* kGating = "gating";
  const std::string form = config.holds_text(kGating)        ? config.text({kGating})
                           : config.boolean({kGating}, true) ? "per-head"
                                                             : "";
  if (form != "per-head" && form != "per-element")
    config.refuse(kGating, "true, 'per-head' or 'per-element'");
  model.attention_output_gate = model.separate_gate = model.softplus_gate = true;
  model.gate_per_head = form == "per-head";
}

void read_laguna_experts(const ConfigReader& config, ModelConfig& model) {
  read_expert_config(config, "moe_intermediate_size", model);
  model.shared_expert_intermediate_size = config.integer({"shared_expert_intermediate_size"}, 512);
  model.experts_before_router = true;
  expect_text(config, "scoring_func", "sigmoid");
  if (config.boolean({"moe_apply_router_weight_on_input"}, false))
    config.refuse("moe_apply_router_weight_on_input", "false");
  model.router = {.score = RouterScore::kSigmoid,
                  .has_correction_bias = true,
                  .normalize = true,
                  .scale = config.positive({"moe_routed_scaling_factor"}, 1.0),
                  .logit_cap = config.number({"moe_router_logit_softcapping"}, 0.0)};
  if (model.router.logit_cap < 0) config.refuse("moe_router_logit_softcapping", "0 or more");
}

}  // namespace

ModelConfig read_laguna_config(const ConfigReader& config) {
  ModelConfig model = read_common_config(
      config, {.key_value_heads = 8, .head_dim = 128, .takes_attention_bias = true, .rotary_by_kind = true});
  model.attention_output_bias = model.attention_bias;
  model.query_key_norm = QueryKeyNorm::kPerHead;
  read_heads_by_layer(config, model);
  read_gate(config, model);
  read_windows(config, 512, model);
  read_rotary_by_kind(config, kLagunaRotary, model, 1.0);
  model.intermediate_size = config.integer({"intermediate_size"});
  read_laguna_experts(config, model);
  read_first_dense_layers(config, 1, model);
  return model;
}

ParameterManifest describe_laguna(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_decoder(config, dtype);
  manifest.set_published_experts(kLagunaExperts);
  for (int layer = 0; layer < config.layer_count(); ++layer) {
    publish_as(layer_tensor_name(layer, "self_attn.g_proj.weight"),
               {layer_tensor_name(layer, blocks::attention::kGateProj)}, manifest);
    if (!config.has_experts(layer)) continue;
    for (const char* projection : {"gate_proj", "up_proj", "down_proj"}) {
      const auto name = [&](const char* module) {
        return layer_tensor_name(layer, fmt::format("mlp.{}.{}.weight", module, projection));
      };
      publish_as(name("shared_expert"), {name("shared_experts")}, manifest, JoinedIn::kCheckpoints);
    }
  }
  return manifest;
}

}  // namespace sluice
