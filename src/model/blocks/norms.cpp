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

std::vector<BlockTensor> layer_tensors(const ModelConfig& config) {
  return {weight(config, kInput, config.hidden_size), weight(config, kPostAttention, config.hidden_size)};
}

BlockTensor final_tensor(const ModelConfig& config) { return weight(config, kFinal, config.hidden_size); }

std::vector<Setting> settings(const ModelConfig& config) {
  return {{"rms_norm_eps", fmt::format("{}", config.rms_norm_eps)},
          {"query_key_norm", std::string(name_of(config.query_key_norm))}};
}

}  // namespace sluice::blocks::norms
