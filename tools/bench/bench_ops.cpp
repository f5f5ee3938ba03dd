// Each operation of src/ops against the same formula in LibTorch's own operations, in bfloat16, side by side.
//
//   bench_ops [--tokens 512,4096] [--only NAME] [--rounds 9] [--threads N] [--json FILE]       N: all cores
//
// Shapes are those of one rank's sequence in the 173 M parameter model of bench_train; the delta rule and its
// convolution have 8 key heads and 16 value heads of 64. "forward" builds no graph, "step" is forward with a
// graph and backward to inputs and weights (ours add theirs in float32, the formula leaves them in bfloat16).
// Medians in milliseconds, the two taking turns; the share is that of a 2048^3 product's rate, measured in
// the same run.
#include "base/clock.hpp"
#include "base/error.hpp"
#include "machine_limit.hpp"
#include "ops/activation.hpp"
#include "ops/attention.hpp"
#include "ops/causal_conv.hpp"
#include "ops/experts.hpp"
#include "ops/gated_delta_rule.hpp"
#include "ops/library.hpp"
#include "ops/loss.hpp"
#include "ops/norm.hpp"
#include "ops/optimizer.hpp"
#include "ops/rotary.hpp"
#include "ops/router.hpp"
#include "torch_formulas.hpp"

#include <ATen/Parallel.h>
#include <fmt/core.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using namespace sluice;
using Tensors = std::vector<at::Tensor>;
using Parameters = std::vector<ops::Parameter>;
using Call = std::function<void()>;

constexpr std::int64_t kHidden = 512, kHeads = 8, kKeyHeads = 2, kHeadDim = 64, kInner = 384, kExperts = 32,
                       kChosen = 4, kVocabulary = 16384, kDeltaKeyHeads = 8, kDeltaHeads = 16, kKernel = 4,
                       kShard = 16 << 20;
constexpr double kScale = 0.125;  // 1 / sqrt(kHeadDim)

struct Arguments {
  std::vector<std::int64_t> tokens{512, 4096};
  std::string only;
  int rounds = 9;
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  std::filesystem::path json;
};

/// An operation and its formula, ready to be called. No forward: there is only the one call.
struct Bench {
  std::string name, shape;
  Call ours_forward, plain_forward;
  Call ours_step, plain_step;
  double forward_flop = 0;  ///< of its products; a step has three times as many
};

struct Row {
  std::string name, shape;
  std::int64_t tokens = 0;
  double ours_forward = 0, plain_forward = 0, ours_step = 0, plain_step = 0;  ///< milliseconds; 0: none
  double share = 0;  ///< of the product rate, in a step; 0: no products
};

at::Tensor numbers(at::IntArrayRef shape) { return at::randn(shape, at::kFloat).to(at::kBFloat16); }

ops::Parameter parameter(at::IntArrayRef shape) {
  return {numbers(shape) * 0.05, at::zeros(shape, at::kFloat)};
}

Call without_graph(Call call) {
  return [call = std::move(call)] {
    const at::NoGradGuard no_graph;
    call();
  };
}

using Operation = std::function<at::Tensor(const Tensors& inputs, const Parameters& weights)>;
using Formula = std::function<at::Tensor(const Tensors& inputs, const Tensors& weights)>;

/// Both forms of something that autograd differentiates.
Bench differentiable(std::string name, const Tensors& values, const Parameters& weights,
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
          without_graph([=] { operation(inputs, weights); }),
          without_graph([=] { formula(inputs, leaves); }),
          [=] { backward(operation(inputs, weights), inputs); },
          [=] { backward(formula(inputs, leaves), all); },
          forward_flop};
}

Bench norm_bench(std::int64_t tokens) {
  return differentiable(
      "rms_norm", {numbers({1, tokens, kHidden})}, {parameter({kHidden})},
      [](const Tensors& in, const Parameters& w) { return ops::rms_norm(in[0], w[0], 1e-6); },
      [](const Tensors& in, const Tensors& w) { return bench::rms_norm(in[0], w[0]); });
}

Bench rotary_bench(std::int64_t tokens) {
  const at::Tensor frequencies =
      at::pow(1e4, -at::arange(kHeadDim / 2, at::kFloat) * 2 / static_cast<double>(kHeadDim));
  const ops::RotaryTable table = ops::make_rotary_table(tokens, frequencies, 1);
  const at::Tensor cos = table.cos.to(at::kBFloat16), sin = table.sin.to(at::kBFloat16);
  return differentiable(
      "rotary", {numbers({1, tokens, kHeads, kHeadDim})}, {},
      [=](const Tensors& in, const Parameters&) { return ops::apply_rotary(in[0], table); },
      [=](const Tensors& in, const Tensors&) { return bench::rotary(in[0], cos, sin); });
}

Bench swiglu_bench(std::int64_t tokens) {
  return differentiable(
      "swiglu", {numbers({tokens * kChosen, kInner}), numbers({tokens * kChosen, kInner})}, {},
      [](const Tensors& in, const Parameters&) { return ops::swiglu(in[0], in[1]); },
      [](const Tensors& in, const Tensors&) { return bench::swiglu(in[0], in[1]); });
}

Bench router_bench(std::int64_t tokens) {
  const ops::RouterOptions options{kChosen, true};
  return differentiable(
      "router", {numbers({tokens, kHidden})}, {parameter({kExperts, kHidden})},
      [=](const Tensors& in, const Parameters& w) { return ops::route(in[0], w[0], options).weights; },
      [](const Tensors& in, const Tensors& w) { return bench::route(in[0], w[0], kChosen); });
}

Bench experts_bench(std::int64_t tokens) {
  const at::Tensor chosen = std::get<1>(at::rand({tokens, kExperts}).topk(kChosen, -1));
  const auto flop = static_cast<double>(2 * tokens * kChosen * 3 * kInner * kHidden);
  return differentiable(
      "experts", {numbers({tokens, kHidden}), at::rand({tokens, kChosen})},
      {parameter({kExperts, 2 * kInner, kHidden}), parameter({kExperts, kHidden, kInner})},
      [=](const Tensors& in, const Parameters& w) {
        return ops::experts(in[0], w[0], w[1], {chosen, in[1], {}});
      },
      [=](const Tensors& in, const Tensors& w) { return bench::experts(in[0], in[1], w[0], w[1], chosen); },
      flop);
}

Bench attention_bench(std::int64_t tokens) {
  // Of the square of scores half is below the diagonal; two products.
  const auto flop = static_cast<double>(2 * tokens * tokens * kHeads * kHeadDim);
  return differentiable(
      "attention",
      {numbers({1, tokens, kHeads, kHeadDim}), numbers({1, tokens, kKeyHeads, kHeadDim}),
       numbers({1, tokens, kKeyHeads, kHeadDim})},
      {}, [](const Tensors& in, const Parameters&) { return ops::attention(in[0], in[1], in[2], kScale); },
      [](const Tensors& in, const Tensors&) { return bench::attention(in[0], in[1], in[2], kScale); }, flop);
}

Bench loss_bench(std::int64_t tokens) {
  const at::Tensor hidden = numbers({tokens, kHidden}),
                   targets = at::randint(kVocabulary, {tokens}, at::kLong);
  const ops::Parameter head = parameter({kVocabulary, kHidden});
  Bench result = differentiable(
      "linear_cross_entropy", {hidden}, {head},
      [](const Tensors&, const Parameters&) { return at::Tensor(); },
      [=](const Tensors& in, const Tensors& w) { return bench::linear_cross_entropy(in[0], w[0], targets); },
      static_cast<double>(2 * tokens * kHidden * kVocabulary));
  // Its gradient comes from the same call, with no graph.
  const auto run = [=](bool want_grad) {
    return without_graph(
        [=] { static_cast<void>(ops::linear_cross_entropy(hidden, head, targets, 1.0, want_grad)); });
  };
  result.ours_forward = run(false);
  result.ours_step = run(true);
  return result;
}

Bench adamw_bench(std::int64_t) {
  const auto zeros = [] { return at::zeros({kShard}, at::kFloat); };
  const bench::AdamWTensors shard{zeros(), zeros(), zeros(), at::randn({kShard}, at::kFloat),
                                  at::zeros({kShard}, at::kBFloat16)};
  const ops::AdamWStep step{
      .lr = 1e-4, .weight_decay = 0.1, .bias_correction1 = 0.1, .bias_correction2 = 0.05, .grad_scale = 0.5};
  return {"adamw_update",
          fmt::format("[{}]", kShard),
          {},
          {},
          [=] {
            ops::adamw_update(shard.master.data_ptr<float>(), shard.m.data_ptr<float>(),
                              shard.v.data_ptr<float>(), shard.grad.data_ptr<float>(), kShard, step,
                              shard.weights.data_ptr(), DType::kBFloat16);
          },
          without_graph([=] { bench::adamw_update(shard, step); }),
          0};
}

Bench delta_rule_bench(std::int64_t tokens) {
  const at::Tensor log_decay = -at::rand({1, tokens, kDeltaHeads}, at::kFloat);
  return differentiable(
      "gated_delta_rule",
      {numbers({1, tokens, kDeltaKeyHeads, kHeadDim}), numbers({1, tokens, kDeltaKeyHeads, kHeadDim}),
       numbers({1, tokens, kDeltaHeads, kHeadDim}), log_decay,
       at::sigmoid(numbers({1, tokens, kDeltaHeads}))},
      {},
      [](const Tensors& in, const Parameters&) {
        return ops::gated_delta_rule({in[0], in[1], in[2], in[3], in[4]});
      },
      [](const Tensors& in, const Tensors&) {
        return bench::gated_delta_rule(in[0], in[1], in[2], in[3], in[4]);
      });
}

Bench conv_bench(std::int64_t tokens) {
  const std::int64_t channels = (2 * kDeltaKeyHeads + kDeltaHeads) * kHeadDim;
  return differentiable(
      "causal_conv", {numbers({1, tokens, channels})}, {parameter({channels, 1, kKernel})},
      [](const Tensors& in, const Parameters& w) { return ops::causal_conv_silu(in[0], w[0]); },
      [](const Tensors& in, const Tensors& w) { return bench::causal_conv_silu(in[0], w[0]); });
}

/// Each made only when its turn comes: together they would fill the memory.
struct Entry {
  std::string_view name;
  Bench (*make)(std::int64_t tokens);
  bool has_tokens = true;
};
constexpr Entry kEntries[] = {{"rms_norm", norm_bench},
                              {"rotary", rotary_bench},
                              {"swiglu", swiglu_bench},
                              {"router", router_bench},
                              {"experts", experts_bench},
                              {"attention", attention_bench},
                              {"linear_cross_entropy", loss_bench},
                              {"gated_delta_rule", delta_rule_bench},
                              {"causal_conv", conv_bench},
                              {"adamw_update", adamw_bench, false}};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double milliseconds(const Call& call) {
  const Stopwatch watch;
  call();
  return watch.seconds() * 1e3;
}

/// Medians of both, taking turns, after one call of each that does not count.
std::pair<double, double> compare(const Call& ours, const Call& plain, int rounds) {
  if (!ours) return {0, 0};
  ours();
  plain();
  std::vector<double> ours_ms, plain_ms;
  for (int round = 0; round < rounds; ++round) {
    ours_ms.push_back(milliseconds(ours));
    plain_ms.push_back(milliseconds(plain));
  }
  return {median(std::move(ours_ms)), median(std::move(plain_ms))};
}

Row measure(const Bench& bench, std::int64_t tokens, int rounds, double product_rate) {
  Row row{.name = bench.name, .shape = bench.shape, .tokens = tokens};
  std::tie(row.ours_forward, row.plain_forward) = compare(bench.ours_forward, bench.plain_forward, rounds);
  std::tie(row.ours_step, row.plain_step) = compare(bench.ours_step, bench.plain_step, rounds);
  row.share = 3 * bench.forward_flop / (row.ours_step * 1e-3) / product_rate;
  return row;
}

void print(const Row& row) {
  const auto cell = [](double ours, double plain) {
    return ours == 0 ? fmt::format("{:>9} {:>9} {:>6}", "-", "-", "-")
                     : fmt::format("{:9.3f} {:9.3f} {:6.2f}", ours, plain, plain / ours);
  };
  fmt::print("{:<21}{:>6}  {:<20}{}  {}  {}\n", row.name, row.tokens, row.shape,
             cell(row.ours_forward, row.plain_forward), cell(row.ours_step, row.plain_step),
             row.share == 0 ? "    -" : fmt::format("{:4.0f} %", row.share * 100));
  std::fflush(stdout);
}

nlohmann::json as_json(const Row& row) {
  return {{"name", row.name},
          {"tokens", row.tokens},
          {"shape", row.shape},
          {"forward_ms", row.ours_forward},
          {"plain_forward_ms", row.plain_forward},
          {"step_ms", row.ours_step},
          {"plain_step_ms", row.plain_step},
          {"step_ratio", row.plain_step / row.ours_step},
          {"share_of_product_rate", row.share}};
}

std::vector<std::int64_t> numbers_in(const std::string& text) {
  std::vector<std::int64_t> values;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) values.push_back(std::atoll(word.c_str()));
  return values;
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view word = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--tokens")
      arguments.tokens = numbers_in(value);
    else if (word == "--only")
      arguments.only = value;
    else if (word == "--rounds")
      arguments.rounds = std::max(1, std::atoi(value.c_str()));
    else if (word == "--threads")
      arguments.threads = std::max(1, std::atoi(value.c_str()));
    else if (word == "--json")
      arguments.json = value;
    else
      fail(ExitCode::kUsage,
           "usage: bench_ops [--tokens 512,4096] [--only NAME] [--rounds 9] [--threads N] [--json FILE]");
  }
  for (const std::int64_t tokens : arguments.tokens)
    if (tokens <= 0 || tokens % 64 != 0) fail(ExitCode::kUsage, "--tokens are multiples of 64");
  return arguments;
}

void run(const Arguments& arguments) {
  ops::start_library(arguments.threads);
  const double product_rate = bench::best_product_rate();
  fmt::print("product {:.3f} TFLOP/s with {} threads\n", product_rate * 1e-12, arguments.threads);
  fmt::print("{:<21}{:>6}  {:<20}{:>9} {:>9} {:>6}  {:>9} {:>9} {:>6}  share\n", "", "tokens", "first input",
             "forward", "LibTorch", "times", "step", "LibTorch", "times");
  nlohmann::json out{{"threads", arguments.threads}, {"product_flop_per_second", product_rate}};
  for (const std::int64_t tokens : arguments.tokens) {
    for (const Entry& entry : kEntries) {
      if (!arguments.only.empty() && arguments.only != entry.name) continue;
      if (!entry.has_tokens && tokens != arguments.tokens.front()) continue;
      const Row row = measure(entry.make(tokens), tokens, arguments.rounds, product_rate);
      print(row);
      out["operations"].push_back(as_json(row));
    }
  }
  if (!arguments.json.empty()) std::ofstream(arguments.json) << out.dump(2) << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Arguments arguments = parse(argc, argv);
    ops::with_plain_errors([&] { run(arguments); });
  } catch (const Error& error) {
    fmt::print(stderr, "bench_ops: {}\n", error.what());
    return static_cast<int>(error.code());
  }
  return 0;
}
