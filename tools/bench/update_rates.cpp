#include "update_rates.hpp"

#include "base/clock.hpp"
#include "base/random.hpp"
#include "machine_limit.hpp"
#include "ops/buffers/adafactor.hpp"
#include "ops/buffers/optimizer.hpp"

#include <ATen/Parallel.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>
#include <utility>

namespace sluice::bench {
namespace {

/// Matrices of an expert's size, as an update meets them. Adafactor, which goes over a matrix three times, has one
/// of all elements: smaller ones would be in the caches the second time.
constexpr std::int64_t kColumns = 2048, kMatrix = 512 * kColumns;
constexpr std::int64_t kPassBytes = std::int64_t{256} << 20;
constexpr int kAdafactorStep = 10;

struct UpdateCase {
  OptimizerKind kind;
  ops::UpdateFormats formats;
  double bar;
};

constexpr DType kWide = DType::kFloat32, kHalf = DType::kBFloat16;
constexpr std::array<UpdateCase, 8> kCases{{
    {OptimizerKind::kAdamW, {kHalf, kWide, MasterFormat::kFloat32, StateFormat::kFloat32}, 0.8},
    {OptimizerKind::kAdamW, {kHalf, kHalf, MasterFormat::kFloat32, StateFormat::kBFloat16}, 0.8},
    {OptimizerKind::kAdamW, {kHalf, kHalf, MasterFormat::k24Bit, StateFormat::kInt8}, 0.4},
    {OptimizerKind::kAdamW, {kHalf, kHalf, MasterFormat::kNone, StateFormat::kInt8}, 0.4},
    {OptimizerKind::kLion, {kHalf, kWide, MasterFormat::kFloat32, StateFormat::kFloat32}, 0.8},
    {OptimizerKind::kLion, {kHalf, kHalf, MasterFormat::kNone, StateFormat::kInt8}, 0.4},
    {OptimizerKind::kAdafactor, {kHalf, kWide, MasterFormat::kFloat32, StateFormat::kFactored}, 0.4},
    {OptimizerKind::kAdafactor, {kHalf, kHalf, MasterFormat::kNone, StateFormat::kFactored}, 0.4},
}};

std::int64_t bytes_of(MasterFormat master) {
  return master == MasterFormat::kFloat32 ? 2 : master == MasterFormat::k24Bit ? 1 : 0;
}

std::int64_t bytes_of(StateFormat state) {
  switch (state) {
    case StateFormat::kFloat32:
      return 4;
    case StateFormat::kBFloat16:
      return 2;
    case StateFormat::kInt8:
      return 1;
    case StateFormat::kFactored:
      return 0;
  }
  return 0;
}

/// One array of a mode, in a block of its own, as far from others as the system puts it.
class Array {
 public:
  Array(std::int64_t elements, std::int64_t size)
      : size_(size),
        block_(allocate(MemoryKind::kPrivate, std::max<std::int64_t>(elements * size, 1), "an update")) {
    std::fill_n(block_.data(), block_.bytes(), std::byte{0});
  }
  [[nodiscard]] std::byte* at(std::int64_t element) const { return block_.data() + element * size_; }
  [[nodiscard]] float* floats(std::int64_t element) const { return reinterpret_cast<float*>(at(element)); }

  /// Numbers of either sign around `size`, in float32 or bfloat16.
  void fill(std::int64_t elements, double size) const {
    const RandomStream stream(1, "update");
    for (std::int64_t i = 0; i < elements; ++i) {
      const std::uint64_t draw = stream.bits(static_cast<std::uint64_t>(i));
      const auto value = static_cast<float>(size * (static_cast<double>(draw >> 11) * 0x1p-52 - 1));
      const auto bits = std::bit_cast<std::uint32_t>(value);
      if (size_ == 4)
        reinterpret_cast<std::uint32_t*>(block_.data())[i] = bits;
      else
        reinterpret_cast<std::uint16_t*>(block_.data())[i] = static_cast<std::uint16_t>(bits >> 16);
    }
  }

 private:
  std::int64_t size_;
  MemoryBlock block_;
};

/// Weights with their state in one mode, and the update of all of them.
class Updated {
 public:
  Updated(const UpdateCase& mode, std::int64_t elements)
      : mode_(mode),
        elements_(elements),
        weights_(elements, size_of(mode.formats.weights)),
        master_(elements, bytes_of(mode.formats.master)),
        first_(elements, bytes_of(mode.formats.state)),
        second_(elements, has_second() ? bytes_of(mode.formats.state) : 0),
        gradient_(elements, size_of(mode.formats.gradient)),
        first_scales_(elements / kStateBlock, sizeof(float)),
        second_scales_(elements / kStateBlock, sizeof(float)),
        rows_(elements / kColumns, sizeof(float)),
        columns_(kColumns, sizeof(float)) {
    weights_.fill(elements, 0.02);
    gradient_.fill(elements, 1e-3);
    for (std::int64_t begin = 0; begin < elements; begin += kMatrix) runs_.push_back(run(begin));
  }

  void update() {
    switch (mode_.kind) {
      case OptimizerKind::kAdamW:
        return ops::update_moments(
            runs_, mode_.formats,
            ops::AdamWStep{
                .lr = 1e-4, .weight_decay = 0.1, .bias_correction1 = 0.1, .bias_correction2 = 0.05});
      case OptimizerKind::kLion:
        return ops::update_moments(runs_, mode_.formats, ops::LionStep{.lr = 1e-5, .weight_decay = 0.1});
      case OptimizerKind::kAdafactor:
        return adafactor();
    }
  }

  /// Of an element: what goes between memory and cores.
  [[nodiscard]] double bytes() const {
    const ops::UpdateFormats& formats = mode_.formats;
    const auto weights = static_cast<double>(size_of(formats.weights) + bytes_of(formats.master));
    const auto gradient = static_cast<double>(size_of(formats.gradient));
    if (mode_.kind == OptimizerKind::kAdafactor) return 3 * weights + 3 * gradient;
    double state = static_cast<double>(bytes_of(formats.state));
    if (formats.state == StateFormat::kInt8) state += static_cast<double>(sizeof(float)) / kStateBlock;
    return 2 * weights + gradient + 2 * (has_second() ? 2 : 1) * state;
  }

 private:
  [[nodiscard]] bool has_second() const { return mode_.kind == OptimizerKind::kAdamW; }

  [[nodiscard]] ops::UpdateRun run(std::int64_t begin) const {
    return {.count = std::min(kMatrix, elements_ - begin),
            .draws = static_cast<std::uint64_t>(begin),
            .weights = weights_.at(begin),
            .master = master_.at(begin),
            .first = first_.at(begin),
            .second = second_.at(begin),
            .first_scales = first_scales_.floats(begin / kStateBlock),
            .second_scales = second_scales_.floats(begin / kStateBlock),
            .gradient = gradient_.at(begin),
            .decays = true};
  }

  void adafactor() const {
    const ops::FactoredRun run{.rows = elements_ / kColumns,
                               .columns = kColumns,
                               .weights = weights_.at(0),
                               .master = master_.at(0),
                               .gradient = gradient_.at(0),
                               .row = rows_.floats(0),
                               .column = columns_.floats(0)};
    const double rho = std::pow(kAdafactorStep, ops::kAdafactorDecay);
    const auto rows = static_cast<double>(run.rows), elements = static_cast<double>(elements_);
    std::vector<double> squares(kColumns);
    const ops::FactoredSums sums = ops::adafactor_sums(run, mode_.formats, rho, squares.data());
    ops::adafactor_columns(run, rho, squares.data(), run.rows);
    const double mean_row = sums.rows / rows;
    const double size = std::sqrt(ops::adafactor_update_squares(run, mode_.formats, mean_row) / elements);
    const double rate =
        1e-4 * std::sqrt(sums.weight_squares / elements) / std::max(1.0, size / ops::kAdafactorD);
    ops::adafactor_update(run, mode_.formats, mean_row, 1 - 1e-5, rate);
  }

  UpdateCase mode_;
  std::int64_t elements_;
  Array weights_, master_, first_, second_, gradient_, first_scales_, second_scales_, rows_, columns_;
  std::vector<ops::UpdateRun> runs_;
};

template <class Call>
void keep_best(double& best, const Call& call) {
  const Stopwatch watch;
  call();
  best = std::min(best, watch.seconds());
}

UpdateRate measure(const UpdateCase& mode, int threads, std::int64_t elements, int rounds,
                   MemoryPasses& passes) {
  Updated updated(mode, elements);
  updated.update();
  double seconds = 1e9, copy_seconds = 1e9, plain_seconds = 1e9;
  for (int round = 0; round < rounds; ++round) {
    keep_best(copy_seconds, [&] { passes.copy(); });
    keep_best(plain_seconds, [&] { passes.update(); });
    keep_best(seconds, [&] { updated.update(); });
  }
  const auto count = static_cast<double>(elements);
  return {.name = fmt::format("{} {} / {} / {}", name_of(mode.kind), name_of(mode.formats.state),
                              name_of(mode.formats.master), name_of(mode.formats.gradient)),
          .threads = threads,
          .bytes = updated.bytes(),
          .seconds = seconds,
          .bytes_per_second = updated.bytes() * count / seconds,
          .memory_rate = std::max(static_cast<double>(passes.copy_bytes()) / copy_seconds,
                                  static_cast<double>(passes.update_bytes()) / plain_seconds),
          .cycles = best_clock_rate() * seconds * threads / count,
          .bar = mode.bar};
}

}  // namespace

std::vector<UpdateRate> measure_updates(int threads, std::int64_t elements, int rounds) {
  at::set_num_threads(threads);
  elements -= elements % kMatrix;
  MemoryPasses passes(kPassBytes);
  std::vector<UpdateRate> rates;
  for (const UpdateCase& mode : kCases) rates.push_back(measure(mode, threads, elements, rounds, passes));
  return rates;
}

}  // namespace sluice::bench
