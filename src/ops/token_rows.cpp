#include "ops/token_rows.hpp"

#include "base/error.hpp"
#include "ops/kernel.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <cstddef>
#include <cstring>

namespace sluice::ops {

at::Tensor take_rows(const at::Tensor& x, const std::vector<std::int32_t>& tokens) {
  at::Tensor out = at::empty({std::ssize(tokens), x.size(1)}, x.options());
  const auto bytes = static_cast<std::size_t>(x.size(1) * x.element_size());
  const auto* const source = static_cast<const std::byte*>(x.data_ptr());
  auto* target = static_cast<std::byte*>(out.data_ptr());
  for (const std::int32_t token : tokens) {
    std::memcpy(target, source + static_cast<std::size_t>(token) * bytes, bytes);
    target += bytes;
  }
  return out;
}

at::Tensor sum_of_parts(const at::Tensor& rows, const std::vector<std::int32_t>& tokens,
                        std::int64_t token_count) {
  SLUICE_ASSERT(tokens.empty() || std::ssize(tokens) == rows.size(0), "{} rows of {} tokens", rows.size(0),
                tokens.size());
  const std::int64_t width = rows.size(1);
  const at::Tensor sums = at::zeros({token_count, width}, rows.options().dtype(at::kFloat));
  float* const sum = sums.data_ptr<float>();
  kernel::dispatch(rows, [&]<class T>(T) {
    const T* const row = rows.data_ptr<T>();
    // Threads share the columns: any row may be of any token.
    at::parallel_for(0, width, kernel::grain(rows.size(0)), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = 0; i < rows.size(0); ++i) {
        const std::int64_t token = tokens.empty() ? i % token_count : tokens[static_cast<std::size_t>(i)];
        kernel::add_row(row + i * width + begin, 1.0F, end - begin, sum + token * width + begin);
      }
    });
  });
  return sums.to(rows.scalar_type());
}

}  // namespace sluice::ops
