// Each operation of src/ops against the same formula in LibTorch's own operations, in bfloat16, side by side.
//
//   bench_ops [--tokens 512,4096] [--only NAME] [--rounds 9] [--threads N] [--updates ELEMENTS] [--products ROWS,...] [--json FILE]
//
// N: all cores. Shapes are those of one rank's sequence in the 173 M parameter model of bench_train, with a window of 128 tokens; the delta rule,
// by token or by channel, and its convolution have 8 key heads and 16 value heads of 64. "forward" builds no graph, "step" is forward with a
// graph and backward to inputs and weights (ours add theirs in float32, the formula leaves them in bfloat16).
// Medians in milliseconds, the two taking turns; the share is that of a 2048^3 product's rate, measured in
// the same run.
//
// With --updates the optimizers' updates in every mode instead, over so many weights: the bytes that they must
// move, each array once, over the rate of plain passes over memory in the same run, and their cycles an element
// (of one core, all threads together), with one thread and with N. Best of --rounds: 67108864 and 30 are good.
//
// With --products the bfloat16 products of an expert and of a projection instead, of so many rows, beside float32 products of
// copies, both as shares of the best float32 product of 2048^3, and the same output from INT4 codes over it (0: no output, or
// too few rows, or a product that oneDNN computes): at ONEDNN_MAX_CPU_ISA=AVX2 OPENBLAS_CORETYPE=Haswell, for example.
#include "arguments.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "machine_limit.hpp"
#include "op_pairs.hpp"
#include "ops/cpu/level.hpp"
#include "ops/runtime/library.hpp"
#include "product_rates.hpp"
#include "update_rates.hpp"

#include <ATen/Context.h>
#include <fmt/core.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace {

using namespace sluice;

struct Arguments {
  std::vector<std::int64_t> tokens{512, 4096};
  std::string only;
  int rounds = 9;
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  std::int64_t updates = 0;            ///< elements; 0: operations instead
  std::vector<std::int64_t> products;  ///< rows; none: operations instead
  std::filesystem::path json;
};

struct Row {
  std::string name, shape;
  std::int64_t tokens = 0;
  double ours_forward = 0, plain_forward = 0, ours_step = 0, plain_step = 0;  ///< milliseconds; 0: none
  double share = 0;  ///< of the product rate, in a step; 0: no products
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

template <class Call>
double milliseconds(const Call& call) {
  const Stopwatch watch;
  call();
  return watch.seconds() * 1e3;
}

/// Medians of both, taking turns, after one call of each that does not count.
template <class Call>
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

/// A formula that computes something else would be no measure.
void require_agreement(const bench::OpPair& pair) {
  if (!pair.ours_forward) return;
  const at::Tensor expected = pair.plain_forward().to(at::kFloat);
  const double difference = (pair.ours_forward().to(at::kFloat) - expected).abs().max().item<double>();
  const double largest = expected.abs().max().item<double>();
  if (!(difference <= 0.05 * largest))
    fail(ExitCode::kInternal, "{} and its formula differ by {} where the largest value is {}", pair.name,
         difference, largest);
}

/// `product_rate` is the best so far; it is measured again beside an operation with products.
Row measure(const bench::OpPair& pair, std::int64_t tokens, int rounds, double& product_rate) {
  require_agreement(pair);
  if (pair.forward_flop > 0) product_rate = std::max(product_rate, bench::best_product_rate());
  Row row{.name = pair.name, .shape = pair.shape, .tokens = tokens};
  std::tie(row.ours_forward, row.plain_forward) = compare(pair.ours_forward, pair.plain_forward, rounds);
  std::tie(row.ours_step, row.plain_step) = compare(pair.ours_step, pair.plain_step, rounds);
  row.share = 3 * pair.forward_flop / (row.ours_step * 1e-3) / product_rate;
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
  for (std::string word; std::getline(stream, word, ',');) values.push_back(count_in<std::int64_t>(word));
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
      arguments.rounds = count_in(value);
    else if (word == "--threads")
      arguments.threads = count_in(value);
    else if (word == "--updates")
      arguments.updates = count_in<std::int64_t>(value);
    else if (word == "--products")
      arguments.products = numbers_in(value);
    else if (word == "--json")
      arguments.json = value;
    else
      fail(
          ExitCode::kUsage,
          "usage: bench_ops [--tokens 512,4096] [--only NAME] [--rounds 9] [--threads N] [--updates ELEMENTS] "
          "[--products ROWS,...] [--json FILE]");
  }
  for (const std::int64_t tokens : arguments.tokens)
    if (tokens <= 0 || tokens % 64 != 0) fail(ExitCode::kUsage, "--tokens are multiples of 64");
  return arguments;
}

nlohmann::json as_json(const bench::UpdateRate& rate) {
  return {{"name", rate.name},
          {"threads", rate.threads},
          {"bytes_an_element", rate.bytes},
          {"seconds", rate.seconds},
          {"bytes_per_second", rate.bytes_per_second},
          {"memory_bytes_per_second", rate.memory_rate},
          {"share", rate.share()},
          {"cycles_an_element", rate.cycles},
          {"bar", rate.bar}};
}

nlohmann::json run_updates(const Arguments& arguments) {
  fmt::print("{:<42}{:>8}{:>10}{:>10}{:>12}{:>8}{:>7}{:>10}\n", "kind, state / master / gradients", "threads",
             "bytes", "GB/s", "memory GB/s", "share", "bar", "cycles");
  nlohmann::json out;
  for (const int threads : std::set{1, arguments.threads})
    for (const bench::UpdateRate& rate :
         bench::measure_updates(threads, arguments.updates, arguments.rounds)) {
      fmt::print("{:<42}{:>8}{:>10.2f}{:>10.2f}{:>12.2f}{:>6.0f} %{:>5.0f} %{:>10.2f}\n", rate.name,
                 rate.threads, rate.bytes, rate.bytes_per_second * 1e-9, rate.memory_rate * 1e-9,
                 rate.share() * 100, rate.bar * 100, rate.cycles);
      out["updates"].push_back(as_json(rate));
    }
  return out;
}

nlohmann::json as_json(const bench::ProductRate& rate) {
  return {{"name", rate.name},
          {"threads", rate.threads},
          {"rows", rate.rows},
          {"flop_per_second", rate.flop_per_second},
          {"copies_flop_per_second", rate.copies_flop_per_second},
          {"codes_flop_per_second", rate.codes_flop_per_second},
          {"float32_flop_per_second", rate.float_rate}};
}

nlohmann::json run_products(const Arguments& arguments) {
  fmt::print("compute {}\n{:<30}{:>8}{:>8}{:>10}{:>10}{:>12}{:>12}\n", ops::means_text(), "product",
             "threads", "rows", "GFLOP/s", "share", "of copies", "INT4/bf16");
  nlohmann::json out;
  for (const int threads : std::set{1, arguments.threads})
    for (const std::int64_t rows : arguments.products)
      for (const bench::ProductRate& rate : bench::measure_products(threads, rows, arguments.rounds)) {
        fmt::print("{:<30}{:>8}{:>8}{:>10.1f}{:>8.0f} %{:>10.0f} %{:>12.2f}\n", rate.name, rate.threads,
                   rate.rows, rate.flop_per_second * 1e-9, rate.flop_per_second / rate.float_rate * 100,
                   rate.copies_flop_per_second / rate.float_rate * 100,
                   rate.codes_flop_per_second / rate.flop_per_second);
        std::fflush(stdout);
        out["products"].push_back(as_json(rate));
      }
  return out;
}

nlohmann::json run_operations(const Arguments& arguments) {
  double product_rate = bench::best_product_rate();
  fmt::print("product {:.3f} TFLOP/s with {} threads\n", product_rate * 1e-12, arguments.threads);
  fmt::print("{:<21}{:>6}  {:<20}{:>9} {:>9} {:>6}  {:>9} {:>9} {:>6}  share\n", "", "tokens", "first input",
             "forward", "LibTorch", "times", "step", "LibTorch", "times");
  nlohmann::json out{{"threads", arguments.threads}};
  for (const std::int64_t tokens : arguments.tokens) {
    for (const bench::OpEntry& entry : bench::kOps) {
      if (!arguments.only.empty() && arguments.only != entry.name) continue;
      if (!entry.has_tokens && tokens != arguments.tokens.front()) continue;
      const Row row = measure(entry.make(tokens), tokens, arguments.rounds, product_rate);
      print(row);
      out["operations"].push_back(as_json(row));
    }
  }
  out["product_flop_per_second"] = product_rate;
  return out;
}

void run(const Arguments& arguments) {
  ops::start_library(arguments.threads);
  // Below AVX-512 oneDNN has no products of bfloat16, and LibTorch asks the processor whether to use it.
  if (ops::cpu::level_here() < ops::cpu::Level::kAvx512) at::globalContext().setUserEnabledMkldnn(false);
  const nlohmann::json out = arguments.updates > 0         ? run_updates(arguments)
                             : !arguments.products.empty() ? run_products(arguments)
                                                           : run_operations(arguments);
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
