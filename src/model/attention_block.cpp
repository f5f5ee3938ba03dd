#include "model/attention_block.hpp"

#include "ops/attention.hpp"
#include "ops/linear.hpp"
#include "ops/norm.hpp"

#include <cmath>

namespace sluice {

at::Tensor attention_block(const ModelConfig& config, const AttentionParameters& parameters,
                           const ops::RotaryTable& rotary, const at::Tensor& x) {
  const std::int64_t sequences = x.size(0);
  const std::int64_t length = x.size(1);
  const at::Tensor tokens = x.reshape({sequences * length, config.hidden_size});
  const auto project = [&](const ops::Parameter& weight, std::int64_t heads) {
    return ops::linear(tokens, weight).view({sequences, length, heads, config.head_dim});
  };
  const at::Tensor queries = ops::rms_norm(project(parameters.q_proj, config.attention_heads),
                                           parameters.q_norm, config.rms_norm_eps);
  const at::Tensor keys = ops::rms_norm(project(parameters.k_proj, config.key_value_heads), parameters.k_norm,
                                        config.rms_norm_eps);
  const at::Tensor values = project(parameters.v_proj, config.key_value_heads);
  const double scale = 1 / std::sqrt(static_cast<double>(config.head_dim));
  const at::Tensor mixed =
      ops::attention(ops::apply_rotary(queries, rotary), ops::apply_rotary(keys, rotary), values, scale);
  return ops::linear(mixed.reshape({sequences * length, config.attention_heads * config.head_dim}),
                     parameters.o_proj)
      .view({sequences, length, config.hidden_size});
}

}  // namespace sluice
