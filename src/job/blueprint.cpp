#include "job/blueprint.hpp"

#include "base/error.hpp"
#include "base/version.hpp"
#include "load/streaming_loader.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

AgreementTopic program_topic() {
  return {"program", {{"version", std::string(version())}, {"git revision", std::string(git_revision())}}};
}

AgreementTopic job_topic(const JobConfig& config) {
  AgreementTopic topic{"job key", {}};
  for (const ConfigEntry& entry : canonical_entries(config))
    topic.entries.push_back({entry.key, entry.value});
  return topic;
}

std::string_view name_of(QueryKeyNorm norm) {
  switch (norm) {
    case QueryKeyNorm::kNone:
      return "none";
    case QueryKeyNorm::kPerHead:
      return "per head";
    case QueryKeyNorm::kWholeProjection:
      return "whole projection";
  }
  return "?";
}

std::string scaling_text(const RotaryConfig& rotary) {
  switch (rotary.scaling) {
    case RotaryScaling::kNone:
      return "none";
    case RotaryScaling::kLinear:
      return fmt::format("linear, factor {}", rotary.factor);
    case RotaryScaling::kYarn:
      return fmt::format("yarn, factor {}, blend from pair {} to {}, magnitude {}", rotary.factor,
                         rotary.blend_begin, rotary.blend_end, rotary.magnitude);
  }
  return "?";
}

/// What changes the numbers without changing a shape.
AgreementTopic setting_topic(const ModelConfig& model) {
  return {"model setting",
          {{"model_type", model.model_type},
           {"dtype", std::string(name_of(model.published_dtype))},
           {"num_attention_heads", fmt::to_string(model.attention_heads)},
           {"num_key_value_heads", fmt::to_string(model.key_value_heads)},
           {"head_dim", fmt::to_string(model.head_dim)},
           {"pad_token_id", fmt::to_string(model.padding_token)},
           {"rms_norm_eps", fmt::format("{}", model.rms_norm_eps)},
           {"query_key_norm", std::string(name_of(model.query_key_norm))},
           {"rope_theta", fmt::format("{}", model.rotary.theta)},
           {"rope_scaling", scaling_text(model.rotary)},
           {"initializer_range", fmt::format("{}", model.initializer_range)},
           {"linear_num_key_heads", fmt::to_string(model.linear_attention.key_heads)},
           {"linear_num_value_heads", fmt::to_string(model.linear_attention.value_heads)},
           {"num_experts_per_tok", fmt::to_string(model.experts_per_token)},
           {"norm_topk_prob", model.normalize_expert_weights ? "true" : "false"}}};
}

AgreementTopic tensor_topic(const ParameterManifest& manifest) {
  AgreementTopic topic{"tensor", {}};
  for (const TensorInfo& tensor : manifest.tensors())
    topic.entries.push_back({tensor.name, ParameterManifest::canonical_value(tensor)});
  return topic;
}

}  // namespace

Blueprint::Blueprint(JobConfig job)
    : config(std::move(job)),
      model(describe_model(config.model.path, config.model.dtype)),
      keys(model.manifest),
      layouts(make_unit_layouts(model.manifest)),
      stages(make_stage_plan(layouts, model.config.tie_word_embeddings)) {}

ShardPlan Blueprint::shard_plan(int world) const {
  const auto wanted = static_cast<int>(config.parallel.expert_parallel);
  return {layouts, {world, wanted == 0 ? world : wanted}};
}

std::vector<RankMemory> Blueprint::memory_plan(const ShardPlan& plan, const JobConfig& settings) const {
  return plan_memory(model.config, plan, stages, settings, LoadOptions().ring_slots);
}

std::vector<AgreementTopic> agreement_topics(const Blueprint& blueprint) {
  return {program_topic(), job_topic(blueprint.config), setting_topic(blueprint.model.config),
          tensor_topic(blueprint.model.manifest)};
}

}  // namespace sluice
