// The rates that limit a training step on this machine, as JSON: a product of 2048 x 2048 matrices, in bfloat16
// or, where the processor has no instructions for it or ONEDNN_MAX_CPU_ISA forbids them, in float32; and memory
// with one thread and with all.
//
//   bench_limit [--threads N] [--array-bytes 256MiB]       N: all cores
#include "arguments.hpp"
#include "base/bytes.hpp"
#include "base/error.hpp"
#include "machine_limit.hpp"
#include "ops/cpu/level.hpp"
#include "ops/cpu/onednn_matmul.hpp"
#include "ops/runtime/library.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <exception>
#include <set>
#include <string>
#include <string_view>
#include <thread>

namespace {

using namespace sluice;

struct Arguments {
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  std::int64_t array_bytes = 256 * kMiB;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view word = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--threads")
      arguments.threads = count_in(value);
    else if (const auto bytes = parse_bytes(value); word == "--array-bytes" && bytes)
      arguments.array_bytes = *bytes;
    else
      fail(ExitCode::kUsage, "usage: bench_limit [--threads N] [--array-bytes 256MiB]");
  }
  return arguments;
}

nlohmann::json measure(const Arguments& arguments) {
  ops::start_library(arguments.threads);
  const bool has_bfloat16 = ops::cpu::has_tiles() || ops::cpu::onednn_has_products();
  nlohmann::json out{
      {"threads", arguments.threads},
      {"product",
       {{"size", bench::kProductSize},
        {"dtype", has_bfloat16 ? "bfloat16" : "float32"},
        {"flop_per_second", has_bfloat16 ? bench::best_product_rate() : bench::best_float_product_rate()},
        {"counted", "2 n^3 FLOP"}}},
      {"memory_counted",
       {{"copy", "8 bytes an element of b = a"},
        {"read", "4 bytes an element of the sum of a"},
        {"update", "28 bytes an element of a, b and c += s * d in place: 16 read, 12 written"}}}};
  for (const int threads : std::set{1, arguments.threads}) {
    const bench::MemoryRates rates = bench::best_memory_rates(threads, arguments.array_bytes);
    out["memory"].push_back({{"threads", threads},
                             {"array_bytes", arguments.array_bytes},
                             {"copy_bytes_per_second", rates.copy},
                             {"read_bytes_per_second", rates.read},
                             {"update_bytes_per_second", rates.update}});
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    fmt::print("{}\n", measure(parse(argc, argv)).dump(2));
  } catch (const Error& error) {
    fmt::print(stderr, "bench_limit: {}\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_limit: {}\n", error.what());
    return static_cast<int>(ExitCode::kInternal);
  }
  return 0;
}
