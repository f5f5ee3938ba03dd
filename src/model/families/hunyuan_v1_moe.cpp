#include "model/families/hunyuan_v1_moe.hpp"

#include "model/blocks/attention.hpp"
#include "model/common_config.hpp"
#include "model/manifest_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace sluice {
namespace {

/// The number at a key, which may be a list of that number for each of so many layers.
std::int64_t read_for_all_layers(const ConfigReader& config, const char* key, std::int64_t layers,
                                 std::optional<std::int64_t> otherwise) {
  if (!config.holds_list(key)) return config.integer({key}, otherwise);
  const std::vector<std::int64_t> numbers = config.integers({key});
  if (numbers.empty() || std::ssize(numbers) < layers || numbers.front() < 1 ||
      std::ranges::count(numbers, numbers.front()) != std::ssize(numbers))
    config.refuse(key, fmt::format("one number above 0 for all {} layers", layers));
  return numbers.front();
}

/// Refuses what the published code knows beside what transformers computes.
void refuse_other_forms(const ConfigReader& given, const ModelConfig& model) {
  const ConfigReader config = given.with(Nulls::kAbsent);
  if (!config.has("head_dim"))
    config.refuse("head_dim", "an even number above 0, which transformers has no default for");
  for (const char* key : {"use_cla", "mlp_bias", "group_limited_greedy", "position_embedding_xdrope"})
    if (config.boolean({key}, false)) config.refuse(key, "false");
  for (const char* key : {"use_qk_norm", "use_mixed_mlp_moe", "norm_topk_prob"})
    if (!config.boolean({key}, true)) config.refuse(key, "true");
  if (config.integer({"moe_layer_num_skipped"}, 0, 0) != 0) config.refuse("moe_layer_num_skipped", "0");
  for (const auto& [key, expected] : {std::pair("num_shared_expert", std::int64_t{1}),
                                      std::pair("moe_intermediate_size", model.expert_intermediate_size),
                                      std::pair("num_experts_per_tok", model.experts_per_token),
                                      std::pair("attention_head_dim", model.head_dim)})
    if (read_for_all_layers(given, key, model.layer_count(), expected) != expected)
      config.refuse(key, fmt::to_string(expected));
}

}  // namespace

ModelConfig read_hunyuan_v1_moe_config(const ConfigReader& config) {
  ModelConfig model = read_common_config(config, {.null_key_value_heads = true,
                                                  .padding_token = 0,
                                                  .takes_attention_bias = true,
                                                  .takes_ntk_alpha = true,
                                                  .rms_norm_eps = 1e-5});
  model.attention_output_bias = model.attention_bias;
  model.query_key_norm = QueryKeyNorm::kPerHead;
  model.norms_behind_rotation = true;
  model.experts = config.integer({"num_experts"});
  const bool has_other_name = !config.contains("moe_topk") && config.has("num_experts_per_tok");
  const char* const chosen_key = has_other_name ? "num_experts_per_tok" : "moe_topk";
  model.experts_per_token = read_for_all_layers(config, chosen_key, model.layer_count(), {});
  if (model.experts_per_token > model.experts)
    config.refuse(chosen_key, fmt::format("at most num_experts = {}", model.experts));
  model.expert_intermediate_size = model.shared_expert_intermediate_size =
      config.integer({"intermediate_size"});
  model.router = {.normalize = true, .knows_balancing_loss = false};
  std::ranges::fill(model.layers, MlpKind::kMoe);
  refuse_other_forms(config, model);
  return model;
}

ParameterManifest describe_hunyuan_v1_moe(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_decoder(config, dtype);
  manifest.set_published_experts(kHunyuanExperts);
  manifest.set_tree_experts(kHunyuanExperts);
  for (int layer = 0; layer < config.layer_count(); ++layer) {
    const auto name = [&](std::string_view tensor) { return layer_tensor_name(layer, tensor); };
    publish_as(name("self_attn.query_layernorm.weight"), {name(blocks::attention::kQNorm)}, manifest);
    publish_as(name("self_attn.key_layernorm.weight"), {name(blocks::attention::kKNorm)}, manifest);
  }
  return manifest;
}

}  // namespace sluice
