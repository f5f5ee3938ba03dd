#include "ops/cpu/dropout_rows.hpp"

#include "ops/cpu/kernel.hpp"

#include <algorithm>
#include <array>

namespace sluice::ops::cpu {
namespace {

template <class T>
void drop(const T* x, T* out, std::int64_t begin, std::int64_t end, double rate, const RandomStream& draws,
          std::int64_t first) {
  constexpr std::int64_t kPiece = 1024;
  std::array<float, kPiece> drawn{};
  const auto limit = static_cast<float>(rate), scale = static_cast<float>(1 / (1 - rate));
  for (; begin < end; begin += kPiece) {
    const std::int64_t count = std::min(kPiece, end - begin);
    draws.uniform(first + begin, count, drawn.data());
    for (std::int64_t i = 0; i < count; ++i)
      out[begin + i] = kernel::store_result<T>(
          drawn[static_cast<std::size_t>(i)] < limit ? 0.0F : kernel::load(x[begin + i]) * scale);
  }
}

}  // namespace

void dropout_rows(const at::Tensor& x, double rate, const RandomStream& draws, std::int64_t first_row,
                  const at::Tensor& out) {
  const std::int64_t first = first_row * x.size(1);
  kernel::dispatch(x, [&]<class T>(T) {
    const T* const in = x.data_ptr<T>();
    T* const to = out.data_ptr<T>();
    at::parallel_for(0, x.numel(), kernel::grain(1), [&](std::int64_t begin, std::int64_t end) {
      drop(in, to, begin, end, rate, draws, first);
    });
  });
}

}  // namespace sluice::ops::cpu
