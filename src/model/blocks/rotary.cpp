#include "model/blocks/rotary.hpp"

#include <fmt/format.h>

namespace sluice::blocks::rotary {
namespace {

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

BlockTensor table(const ModelConfig& config, std::string_view name) {
  return {
      name, {config.rotary.dim / 2}, Role::kAttention, InitialValues::kByRole, TensorKind::kComputedBuffer};
}

}  // namespace

std::vector<BlockTensor> tensors(const ModelConfig& config) {
  return {table(config, kFrequencies), table(config, kOriginalFrequencies)};
}

std::vector<Setting> settings(const ModelConfig& config) {
  return {{"rope_theta", fmt::format("{}", config.rotary.theta)},
          {"rope_scaling", scaling_text(config.rotary)},
          {"rope_interleave", config.rotary.interleaved ? "true" : "false"}};
}

}  // namespace sluice::blocks::rotary
