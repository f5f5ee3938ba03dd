#include "model/blocks/norms.hpp"

#include <fmt/format.h>

namespace sluice::blocks::norms {
namespace {

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

}  // namespace

BlockTensor weight(const ModelConfig& config, std::string_view name, std::int64_t size) {
  return {
      name, {size}, Role::kNorm, config.zero_centred_norms ? InitialValues::kZeros : InitialValues::kOnes};
}

std::string_view before_mlp(const ModelConfig& config) {
  return config.branch_norms ? kPreMlp : kPostAttention;
}

std::vector<BlockTensor> layer_tensors(const ModelConfig& config, int layer) {
  std::vector<BlockTensor> out;
  const auto add = [&](std::string_view name) { out.push_back(weight(config, name, config.hidden_size)); };
  if (config.has_mixer(layer)) add(kInput);
  if (config.has_mixer(layer) && config.branch_norms) add(kPostAttention);
  if (config.has_mlp(layer) && !config.has_parallel_halves(layer)) add(before_mlp(config));
  if (config.has_mlp(layer) && config.branch_norms) add(kPostMlp);
  if (config.has_both_mlps(layer))
    for (const std::string_view name : {kPostDense, kPreExperts, kPostExperts}) add(name);
  if (config.layer_scalars)
    out.push_back({kLayerScalar, {1}, Role::kNorm, InitialValues::kOnes, TensorKind::kPersistentBuffer});
  return out;
}

BlockTensor final_tensor(const ModelConfig& config) { return weight(config, kFinal, config.hidden_size); }

std::vector<Setting> settings(const ModelConfig& config) {
  std::vector<Setting> out{{"rms_norm_eps", fmt::format("{}", config.rms_norm_eps)},
                           {"query_key_norm", std::string(name_of(config.query_key_norm))}};
  if (config.value_norm) out.push_back({"value_norm", "per head, without a weight"});
  if (config.unrounded_norms) out.push_back({"rounding of norms", "behind the weight"});
  if (config.layer_norms) out.push_back({"mean of norms", "taken off"});
  return out;
}

}  // namespace sluice::blocks::norms
