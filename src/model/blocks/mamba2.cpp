#include "model/blocks/mamba2.hpp"

#include "base/compute_sizes.hpp"
#include "base/round.hpp"

#include <fmt/format.h>

namespace sluice::blocks::mamba2 {

std::vector<BlockTensor> tensors(const ModelConfig& config) {
  const Mamba2Config& mamba = config.mamba2;
  const std::int64_t hidden = config.hidden_size, width = mamba.width(), mixed = mamba.mixed();
  constexpr Role kRole = Role::kLinearAttention;
  constexpr TensorKind kFloat32 = TensorKind::kFloat32Parameter;
  std::vector<BlockTensor> out{{kDtBias, {mamba.heads}, kRole, InitialValues::kOnes, kFloat32},
                               {kALog, {mamba.heads}, kRole, InitialValues::kLogOfPlace, kFloat32},
                               {kSkip, {mamba.heads}, kRole, InitialValues::kOnes, kFloat32},
                               {kConv1d, {mixed, 1, mamba.conv_kernel_size}, kRole}};
  if (mamba.conv_bias) out.push_back({kConvBias, {mixed}, kRole, InitialValues::kZeros});
  out.push_back({kInProj, {width + mixed + mamba.heads, hidden}, kRole});
  out.push_back({kNorm, {width}, Role::kNorm});
  out.push_back({kOutProj, {hidden, width}, kRole});
  return out;
}

std::vector<Setting> settings(const ModelConfig& config) {
  const Mamba2Config& mamba = config.mamba2;
  if (mamba.heads == 0) return {};
  return {{"mamba_n_groups", fmt::to_string(mamba.groups)},
          {"time_step_limit", fmt::format("{} to {}", mamba.least_step, mamba.largest_step)}};
}

BlockActivations activations(const ModelConfig& config, const PassSize& pass) {
  const Mamba2Config& mamba = config.mamba2;
  const std::int64_t width = mamba.width(), mixed = mamba.mixed(), chunk = kDeltaChunkPositions;
  const std::int64_t float_bytes = size_of(DType::kFloat32);
  const std::int64_t states = divide_up(pass.length, chunk) * width * mamba.state_dim * float_bytes;
  // Kept are the block's input, the convolution's inputs and outputs, the gate, what the scan, the gate and the norm
  // make, steps and decays in float32, and the state before each chunk. The most beside these is what the input is
  // projected to, in forward; gradients take the place of what their operations kept.
  return {
      .kept = config.hidden_size + 2 * mixed + 4 * width + 8 * mamba.heads +
              divide_up(states, pass.length * pass.element_bytes),
      .passed = mixed + width + 8 * mamba.heads,
      .working_bytes = pass.sequences * float_bytes *
                       (7 * mamba.heads * chunk * chunk + 9 * chunk * width + 4 * width * mamba.state_dim)};
}

BlockCache cache(const ModelConfig& config, std::int64_t element_bytes) {
  const Mamba2Config& mamba = config.mamba2;
  return {.sequence_bytes = (mamba.conv_kernel_size - 1) * mamba.mixed() * element_bytes +
                            mamba.width() * mamba.state_dim * size_of(DType::kFloat32)};
}

}  // namespace sluice::blocks::mamba2
