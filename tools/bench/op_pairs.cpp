#include "op_pairs.hpp"

#include "ops/activation.hpp"
#include "ops/attention.hpp"
#include "ops/buffers/optimizer.hpp"
#include "ops/causal_conv.hpp"
#include "ops/experts.hpp"
#include "ops/gated_delta_rule.hpp"
#include "ops/loss.hpp"
#include "ops/mamba2_scan.hpp"
#include "ops/norm.hpp"
#include "ops/rotary.hpp"
#include "ops/router.hpp"
#include "support/no_exchange.hpp"
#include "torch_formulas.hpp"

#include <fmt/core.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <sstream>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::bench {
namespace {

using Tensors = std::vector<at::Tensor>;
using Parameters = std::vector<ops::Parameter>;

constexpr std::int64_t kHidden = 512, kHeads = 8, kKeyHeads = 2, kHeadDim = 64, kInner = 384, kExperts = 32,
                       kChosen = 4, kVocabulary = 16384, kDeltaKeyHeads = 8, kDeltaHeads = 16,
                       kScanHeads = 32, kScanHeadDim = 64, kScanState = 128, kKernel = 4, kShard = 16 << 20;
constexpr double kScale = 0.125;  // 1 / sqrt(kHeadDim)

at::Tensor numbers(at::IntArrayRef shape) { return at::randn(shape, at::kFloat).to(at::kBFloat16); }

ops::Parameter parameter(at::IntArrayRef shape) {
  return {numbers(shape) * 0.05, at::zeros(shape, at::kFloat)};
}

template <class Call>
auto without_graph(Call call) {
  return [call = std::move(call)] {
    const at::NoGradGuard no_graph;
    return call();
  };
}

using Operation = std::function<at::Tensor(const Tensors& inputs, const Parameters& weights)>;
using Formula = std::function<at::Tensor(const Tensors& inputs, const Tensors& weights)>;

/// Both forms of something that autograd differentiates.
OpPair differentiable(std::string name, const Tensors& values, const Parameters& weights,
                      const Operation& operation, const Formula& formula, double forward_flop = 0) {
  Tensors inputs, leaves;
  for (const at::Tensor& value : values) inputs.push_back(value.detach().requires_grad_());
  for (const ops::Parameter& weight : weights) leaves.push_back(weight.value.detach().requires_grad_());
  Tensors all = inputs;
  all.insert(all.end(), leaves.begin(), leaves.end());
  const auto backward = [](const at::Tensor& out, const Tensors& wanted) {
    static_cast<void>(torch::autograd::grad({out}, wanted, {at::ones_like(out)}));
  };
  std::ostringstream shape;
  shape << values[0].sizes();
  return {std::move(name),
          shape.str(),
          without_graph([=] { return operation(inputs, weights); }),
          without_graph([=] { return formula(inputs, leaves); }),
          [=] { backward(operation(inputs, weights), inputs); },
          [=] { backward(formula(inputs, leaves), all); },
          forward_flop};
}

OpPair norm_pair(std::int64_t tokens) {
  return differentiable(
      "rms_norm", {numbers({1, tokens, kHidden})}, {parameter({kHidden})},
      [](const Tensors& in, const Parameters& w) { return ops::row_norm(in[0], w[0], 1e-6); },
      [](const Tensors& in, const Tensors& w) { return bench::rms_norm(in[0], w[0]); });
}

OpPair rotary_pair(std::int64_t tokens) {
  const at::Tensor frequencies =
      at::pow(1e4, -at::arange(kHeadDim / 2, at::kFloat) * 2 / static_cast<double>(kHeadDim));
  const ops::RotaryTable table = ops::make_rotary_table(tokens, frequencies, 1);
  const at::Tensor cos = table.cos.to(at::kBFloat16), sin = table.sin.to(at::kBFloat16);
  return differentiable(
      "rotary", {numbers({1, tokens, kHeads, kHeadDim})}, {},
      [=](const Tensors& in, const Parameters&) { return ops::apply_rotary(in[0], table); },
      [=](const Tensors& in, const Tensors&) { return bench::rotary(in[0], cos, sin); });
}

OpPair swiglu_pair(std::int64_t tokens) {
  return differentiable(
      "swiglu", {numbers({tokens * kChosen, kInner}), numbers({tokens * kChosen, kInner})}, {},
      [](const Tensors& in, const Parameters&) { return ops::swiglu(in[0], in[1]); },
      [](const Tensors& in, const Tensors&) { return bench::swiglu(in[0], in[1]); });
}

OpPair router_pair(std::int64_t tokens) {
  const ops::RouterOptions options{kChosen, true};
  return differentiable(
      "router", {numbers({tokens, kHidden})}, {parameter({kExperts, kHidden})},
      [=](const Tensors& in, const Parameters& w) { return ops::route(in[0], w[0], options).weights; },
      [](const Tensors& in, const Tensors& w) { return bench::route(in[0], w[0], kChosen); });
}

OpPair experts_pair(std::int64_t tokens) {
  const at::Tensor chosen = std::get<1>(at::rand({tokens, kExperts}).topk(kChosen, -1));
  const auto flop = static_cast<double>(2 * tokens * kChosen * 3 * kInner * kHidden);
  return differentiable(
      "experts", {numbers({tokens, kHidden}), at::rand({tokens, kChosen})},
      {parameter({kExperts, 2 * kInner, kHidden}), parameter({kExperts, kHidden, kInner})},
      [=](const Tensors& in, const Parameters& w) {
        static test::NoExchange all_here;
        return ops::experts(in[0], {w[0], w[1]}, {chosen, in[1], {}}, all_here);
      },
      [=](const Tensors& in, const Tensors& w) { return bench::experts(in[0], in[1], w[0], w[1], chosen); },
      flop);
}

/// Of the square of scores half is below the diagonal, of a window what lies in it; two products.
OpPair attention_of(std::string name, std::int64_t tokens, std::int64_t window, bool has_sinks) {
  const std::int64_t seen = window == 0 ? tokens : std::min(2 * window, tokens);
  Parameters sinks;
  if (has_sinks) sinks.push_back(parameter({kHeads}));
  return differentiable(
      std::move(name),
      {numbers({1, tokens, kHeads, kHeadDim}), numbers({1, tokens, kKeyHeads, kHeadDim}),
       numbers({1, tokens, kKeyHeads, kHeadDim})},
      sinks,
      [=](const Tensors& in, const Parameters& w) {
        return ops::attention(in[0], in[1], in[2], {kScale, window, has_sinks ? w[0] : ops::Parameter()});
      },
      [=](const Tensors& in, const Tensors& w) {
        return bench::attention(in[0], in[1], in[2], kScale, window, has_sinks ? w[0] : at::Tensor());
      },
      static_cast<double>(2 * tokens * seen * kHeads * kHeadDim));
}

OpPair attention_pair(std::int64_t tokens) { return attention_of("attention", tokens, 0, false); }
OpPair sinks_pair(std::int64_t tokens) { return attention_of("attention_sinks", tokens, 0, true); }
OpPair window_pair(std::int64_t tokens) { return attention_of("attention_window", tokens, 128, false); }

OpPair loss_pair(std::int64_t tokens) {
  const at::Tensor hidden = numbers({tokens, kHidden}),
                   targets = at::randint(kVocabulary, {tokens}, at::kLong);
  const ops::Parameter head = parameter({kVocabulary, kHidden});
  OpPair result = differentiable(
      "linear_cross_entropy", {hidden}, {head},
      [](const Tensors&, const Parameters&) { return at::Tensor(); },
      [=](const Tensors& in, const Tensors& w) { return bench::linear_cross_entropy(in[0], w[0], targets); },
      static_cast<double>(2 * tokens * kHidden * kVocabulary));
  // Its gradient comes from the same call, with no graph.
  const auto run = [=](const ops::LossCoefficients& coefficients) {
    return without_graph([=] {
      return ops::linear_cross_entropy(hidden, head, targets, coefficients).losses.sum().to(at::kFloat);
    });
  };
  result.ours_forward = run(ops::NoLossGradient());
  result.ours_step = run(1.0);
  return result;
}

OpPair adamw_pair(std::int64_t) {
  const auto zeros = [] { return at::zeros({kShard}, at::kFloat); };
  const bench::AdamWTensors shard{zeros(), zeros(), zeros(), at::randn({kShard}, at::kFloat),
                                  at::zeros({kShard}, at::kBFloat16)};
  const ops::AdamWStep step{
      .lr = 1e-4, .weight_decay = 0.1, .bias_correction1 = 0.1, .bias_correction2 = 0.05};
  constexpr float kGradientScale = 0.5F;
  const at::Tensor rest = at::zeros({kShard}, at::kShort);
  return {"adamw_update",
          fmt::format("[{}]", kShard),
          {},
          {},
          [=] {
            const auto bytes = [](const at::Tensor& tensor) {
              return static_cast<std::byte*>(tensor.data_ptr());
            };
            const ops::UpdateRun run{.count = kShard,
                                     .weights = bytes(shard.weights),
                                     .master = bytes(rest),
                                     .first = bytes(shard.m),
                                     .second = bytes(shard.v),
                                     .gradient = bytes(shard.grad),
                                     .gradient_scale = kGradientScale,
                                     .decays = true};
            ops::update_moments(std::span(&run, 1), {.weights = DType::kBFloat16}, step);
          },
          without_graph([=] { bench::adamw_update(shard, step, kGradientScale); }),
          0};
}

OpPair delta_rule_of(std::string name, std::int64_t tokens, const at::Tensor& log_decay,
                     decltype(bench::gated_delta_rule)& formula) {
  return differentiable(
      std::move(name),
      {numbers({1, tokens, kDeltaKeyHeads, kHeadDim}), numbers({1, tokens, kDeltaKeyHeads, kHeadDim}),
       numbers({1, tokens, kDeltaHeads, kHeadDim}), log_decay,
       at::sigmoid(numbers({1, tokens, kDeltaHeads}))},
      {},
      [](const Tensors& in, const Parameters&) {
        return ops::gated_delta_rule({in[0], in[1], in[2], in[3], in[4]});
      },
      [&formula](const Tensors& in, const Tensors&) { return formula(in[0], in[1], in[2], in[3], in[4]); });
}

OpPair delta_rule_pair(std::int64_t tokens) {
  return delta_rule_of("gated_delta_rule", tokens, -at::rand({1, tokens, kDeltaHeads}, at::kFloat),
                       bench::gated_delta_rule);
}
OpPair channel_delta_rule_pair(std::int64_t tokens) {
  return delta_rule_of("channel_delta_rule", tokens,
                       -at::rand({1, tokens, kDeltaHeads, kHeadDim}, at::kFloat), bench::channel_delta_rule);
}

OpPair scan_pair(std::int64_t tokens) {
  const at::Tensor step = at::rand({1, tokens, kScanHeads}, at::kFloat);
  return differentiable(
      "mamba2_scan",
      {numbers({1, tokens, kScanHeads, kScanHeadDim}), numbers({1, tokens, 1, kScanState}),
       numbers({1, tokens, 1, kScanState}), -step, step, at::ones({kScanHeads}, at::kFloat)},
      {},
      [](const Tensors& in, const Parameters&) {
        return ops::mamba2_scan({in[0], in[1], in[2], in[3], in[4], in[5]});
      },
      [](const Tensors& in, const Tensors&) {
        return bench::mamba2_scan(in[0], in[1], in[2], in[3], in[4], in[5]);
      });
}

OpPair conv_pair(std::int64_t tokens) {
  const std::int64_t channels = (2 * kDeltaKeyHeads + kDeltaHeads) * kHeadDim;
  return differentiable(
      "causal_conv", {numbers({1, tokens, channels})}, {parameter({channels, 1, kKernel})},
      [](const Tensors& in, const Parameters& w) {
        return ops::causal_conv(in[0], w[0], ops::ConvActivation::kSilu);
      },
      [](const Tensors& in, const Tensors& w) { return bench::causal_conv_silu(in[0], w[0]); });
}

}  // namespace

const std::array<OpEntry, 14> kOps{{{"rms_norm", norm_pair},
                                    {"rotary", rotary_pair},
                                    {"swiglu", swiglu_pair},
                                    {"router", router_pair},
                                    {"experts", experts_pair},
                                    {"attention", attention_pair},
                                    {"attention_sinks", sinks_pair},
                                    {"attention_window", window_pair},
                                    {"linear_cross_entropy", loss_pair},
                                    {"gated_delta_rule", delta_rule_pair},
                                    {"channel_delta_rule", channel_delta_rule_pair},
                                    {"mamba2_scan", scan_pair},
                                    {"causal_conv", conv_pair},
                                    {"adamw_update", adamw_pair, false}}};

}  // namespace sluice::bench
