// Conversion between element types against a plain copy of the same bytes, on one thread:
//
//   bench_convert [bytes of the source in each call, 256MiB]
//
// Rates count what is read and what is written; the best of seven calls. A quarter of the float16 numbers
// are subnormal, so that a conversion that is slow for those shows it. Then quantised weights to bfloat16 at every
// vector level: elements a second, and of those of float16 to bfloat16 at the same level. That conversion has none
// beyond AVX2, and is none without vectors here.
#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/dtype.hpp"
#include "base/random.hpp"
#include "encoding/dequantise.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

namespace {

using namespace sluice;

constexpr std::array kTypes{DType::kFloat32, DType::kBFloat16, DType::kFloat16};

/// Numbers of either sign below 1, as `dtype`.
std::vector<std::byte> numbers(DType dtype, std::int64_t count) {
  std::vector<float> values(1 << 16);
  RandomStream(1, "numbers").uniform(0, std::ssize(values), values.data());
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = (2 * values[i] - 1) * (i % 4 == 0 ? 5e-5F : 1.0F);
  std::vector<std::byte> bytes(static_cast<std::size_t>(count * size_of(dtype)));
  for (std::int64_t done = 0; done < count; done += std::ssize(values))
    convert_elements(values.data(), DType::kFloat32, bytes.data() + done * size_of(dtype), dtype,
                     std::min<std::int64_t>(count - done, std::ssize(values)));
  return bytes;
}

template <class Call>
double best_seconds(Call call) {
  double best = 1e9;
  for (int i = 0; i < 7; ++i) {
    const Stopwatch watch;
    call();
    best = std::min(best, watch.seconds());
  }
  return best;
}

void print_rate(DType from, DType to, std::int64_t source_bytes) {
  const std::int64_t count = source_bytes / size_of(from);
  const std::int64_t target_bytes = count * size_of(to);
  const std::vector<std::byte> source = numbers(from, count);
  std::vector<std::byte> target(static_cast<std::size_t>(std::max(source_bytes, target_bytes)));
  const double copy = best_seconds([&] { std::memcpy(target.data(), source.data(), source.size()); });
  const double convert =
      best_seconds([&] { convert_elements(source.data(), from, target.data(), to, count); });
  const double copy_rate = static_cast<double>(2 * source_bytes) / copy / 1e9;
  const double rate = static_cast<double>(source_bytes + target_bytes) / convert / 1e9;
  fmt::print("{:>8} to {:8}  {:6.2f} GB/s   memcpy {:6.2f} GB/s   {:.2f}\n", name_of(from), name_of(to), rate,
             copy_rate, rate / copy_rate);
}

std::string_view name_of(VectorLevel level) {
  return level == VectorLevel::kPlain ? "no vectors" : level == VectorLevel::kAvx2 ? "AVX2" : "AVX-512";
}

/// Exponents near that of 1, or numbers.
std::vector<std::byte> scales_of(const Encoding& encoding) {
  const std::int64_t count = encoding.grid_rows() * encoding.grid_columns();
  if (size_of(encoding.scale_type) > 1) return numbers(encoding.scale_type, count);
  std::vector<std::byte> scales(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<std::byte>(115 + i % 11);
  return scales;
}

/// As many elements as `bytes` of float16 hold.
void print_quantised(std::int64_t bytes) {
  constexpr std::int64_t kColumns = 2048;
  const std::int64_t rows = bytes / 2 / kColumns, count = rows * kColumns;
  const Encoding float8{.rows = rows, .columns = kColumns, .block_rows = 128, .block_columns = 128};
  const Encoding int4{.codes = Codes::kInt4,
                      .scale_type = DType::kBFloat16,
                      .rows = rows,
                      .columns = kColumns,
                      .block_rows = 1,
                      .block_columns = 32};
  Encoding mxfp4 = int4;
  mxfp4.codes = Codes::kFloat4E2M1;
  mxfp4.scale_type = DType::kUInt8;
  Encoding nvfp4 = mxfp4;
  nvfp4.scale_type = DType::kFloat8E4M3;
  nvfp4.block_columns = 16;
  nvfp4.tensor_scale.divisor = 16384;
  const std::vector<std::byte> halves = numbers(DType::kFloat16, count);
  std::vector<std::byte> target(static_cast<std::size_t>(2 * count));
  const auto convert = [&] {
    convert_elements(halves.data(), DType::kFloat16, target.data(), DType::kBFloat16, count);
  };
  const auto rate = [&](double seconds) { return static_cast<double>(count) / seconds / 1e9; };
  for (const Encoding& encoding : {float8, int4, mxfp4, nvfp4}) {
    const std::vector<std::byte> scales = scales_of(encoding);
    for (const VectorLevel level : {VectorLevel::kPlain, VectorLevel::kAvx2, VectorLevel::kAvx512}) {
      if (level > best_vector_level()) continue;
      double seconds = 1e9, halves_seconds = 1e9;
      for (int i = 0; i < 3; ++i) {  // in turn, so that both meet the same machine
        seconds = std::min(seconds, best_seconds([&] {
                             dequantise(encoding, {0, count}, halves.data(), scales.data(), DType::kBFloat16,
                                        target.data(), level);
                           }));
        halves_seconds = std::min(halves_seconds, best_seconds(convert));
      }
      fmt::print("{}, {}: {:.2f} G elements/s", encoding.text(), name_of(level), rate(seconds));
      if (level != VectorLevel::kPlain)
        fmt::print(", {:.2f} of float16 to bfloat16, which is {:.2f}", halves_seconds / seconds,
                   rate(halves_seconds));
      fmt::print("\n");
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<std::int64_t> bytes = parse_bytes(argc > 1 ? argv[1] : "256MiB");
  if (!bytes) {
    fmt::print(stderr, "usage: bench_convert [256MiB]\n");
    return 64;
  }
  for (const DType from : kTypes)
    for (const DType to : kTypes)
      if (from != to) print_rate(from, to, *bytes);
  print_quantised(*bytes);
  return 0;
}
