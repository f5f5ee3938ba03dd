#include "product_rates.hpp"

#include "encoding/quantise.hpp"
#include "machine_limit.hpp"
#include "ops/cpu/matmul.hpp"
#include "ops/matmul.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <deque>
#include <functional>
#include <tuple>

namespace sluice::bench {
namespace {

/// Kinds of products of a layer: its output, the gradient of its input, and that of its weight.
enum class Pass : std::uint8_t { kForward, kInput, kWeight };

struct Shape {
  const char* name;
  std::int64_t outputs, inputs;  ///< of the weight [outputs, inputs]
  Pass pass;
};
constexpr Shape kShapes[] = {{"expert up, output", 768, 2048, Pass::kForward},
                             {"expert up, input gradient", 768, 2048, Pass::kInput},
                             {"expert up, weight gradient", 768, 2048, Pass::kWeight},
                             {"expert down, output", 2048, 768, Pass::kForward},
                             {"projection, output", 4096, 2048, Pass::kForward},
                             {"projection, input gradient", 4096, 2048, Pass::kInput}};

constexpr std::int64_t kWeightsBytes = std::int64_t{64} << 20;  // More than caches keep.

at::Tensor bfloat16_matrix(std::int64_t rows, std::int64_t columns) {
  return at::randn({rows, columns}, at::kFloat).to(at::kBFloat16);
}

/// Processor seconds of a call, of all threads together, over their number: others that compute on the same
/// cores change them least.
double seconds_of(const std::function<void()>& call) {
  const std::clock_t begin = std::clock();
  call();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / at::get_num_threads();
}

/// The best seconds of a product, of the same from float32 copies, and from codes.
struct Best {
  double ours = 1e9, copies = 1e9, codes = 1e9;
};

/// A matrix in INT4, by groups of 32.
class CodedWeight {
 public:
  explicit CodedWeight(const at::Tensor& numbers)
      : encoding_{.codes = Codes::kInt4,
                  .scale_type = DType::kBFloat16,
                  .rows = numbers.size(0),
                  .columns = numbers.size(1),
                  .block_rows = 1,
                  .block_columns = 32} {
    encoding_.scale_count = encoding_.rows * encoding_.grid_columns();
    codes_.resize(static_cast<std::size_t>(encoding_.code_bytes(numbers.numel())));
    scales_.resize(static_cast<std::size_t>(encoding_.scale_bytes()));
    const at::Tensor values = numbers.to(at::kFloat);
    quantise_rows(encoding_, encoding_.rows, values.data_ptr<float>(), codes_.data(), scales_.data());
  }
  [[nodiscard]] CodedRows rows() const {
    return {&encoding_, 0, encoding_.rows, codes_.data(), scales_.data()};
  }

 private:
  Encoding encoding_;
  std::vector<std::byte> codes_, scales_;
};

double best_square_seconds(int rounds) {
  const at::Tensor a = at::randn({kProductSize, kProductSize}), b = at::randn({kProductSize, kProductSize});
  const at::Tensor out = at::empty_like(a);
  double best = 1e9;
  for (int round = 0; round < rounds; ++round)
    best = std::min(best, seconds_of([&] { ops::matmul(out, a, b); }));
  return best;
}

Best best_of(const Shape& shape, std::int64_t rows, int rounds) {
  const std::int64_t count = kWeightsBytes / (2 * shape.outputs * shape.inputs);
  std::vector<at::Tensor> weights, gradients;
  std::deque<CodedWeight> codes;
  for (std::int64_t i = 0; i < count; ++i) {
    weights.push_back(bfloat16_matrix(shape.outputs, shape.inputs));
    if (shape.pass == Pass::kForward) codes.emplace_back(weights.back());
    gradients.push_back(at::empty({shape.outputs, shape.inputs}, at::kFloat));
  }
  const at::Tensor x = bfloat16_matrix(rows, shape.inputs), d_y = bfloat16_matrix(rows, shape.outputs);
  const at::Tensor y = at::empty_like(d_y), d_x = at::empty_like(x);
  const auto product = [&](std::size_t i) -> std::tuple<at::Tensor, at::Tensor, at::Tensor> {
    if (shape.pass == Pass::kForward) return {y, x, weights[i].t()};
    if (shape.pass == Pass::kInput) return {d_x, d_y, weights[i]};
    return {gradients[i], d_y.t(), x};
  };
  Best best;
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const auto [out, a, b] = product(i);
      const auto compute = [&, &to = out, &left = a, &right = b](bool copies) {
        if (!copies) return ops::matmul(to, left, right);
        if (to.scalar_type() == at::kFloat) return ops::matmul(to, left.to(at::kFloat), right.to(at::kFloat));
        to.copy_(ops::matmul(left.to(at::kFloat), right.to(at::kFloat)));
      };
      best.ours = std::min(best.ours, seconds_of([&] { compute(false); }));
      best.copies = std::min(best.copies, seconds_of([&] { compute(true); }));
      if (codes.empty()) continue;
      bool is_computed = false;
      const CodedRows weight = codes[i].rows();
      const double seconds = seconds_of([&] { is_computed = ops::cpu::matmul_of_codes(y, x, {&weight, 1}); });
      if (is_computed) best.codes = std::min(best.codes, seconds);
    }
  return best;
}

}  // namespace

std::vector<ProductRate> measure_products(int threads, std::int64_t rows, int rounds) {
  at::set_num_threads(threads);
  double square_seconds = best_square_seconds(rounds);
  std::vector<ProductRate> rates;
  for (const Shape& shape : kShapes) {
    const Best best = best_of(shape, rows, rounds);
    square_seconds = std::min(square_seconds, best_square_seconds(1));
    const double flop = 2.0 * static_cast<double>(rows * shape.outputs * shape.inputs);
    rates.push_back({shape.name, threads, rows, flop / best.ours, flop / best.copies,
                     best.codes < 1e9 ? flop / best.codes : 0, 0});
  }
  for (ProductRate& rate : rates) rate.float_rate = 2 * std::pow(kProductSize, 3) / square_seconds;
  return rates;
}

}  // namespace sluice::bench
