#include "ops/cpu/token_rows.hpp"

#include "base/error.hpp"
#include "encoding/token_rows.hpp"
#include "ops/cpu/kernel.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

namespace sluice::ops::cpu {
namespace {

template <class T>
SLUICE_VECTOR_CLONES void round_run(const float* from, std::int64_t count, T* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = kernel::store<T>(from[i]);
}

/// Computes out [T, width] = the sum of the layers of rows [layers x T, width].
void sum_layers(const at::Tensor& rows, const at::Tensor& out) {
  const std::int64_t width = rows.size(1);
  kernel::dispatch(rows, [&]<class T>(T) {
    const T* const row = rows.data_ptr<T>();
    at::parallel_for(0, out.size(0), kernel::grain(width), [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> sum(static_cast<std::size_t>(width));
      for (std::int64_t token = begin; token < end; ++token) {
        std::fill(sum.begin(), sum.end(), 0.0F);
        for (std::int64_t i = token; i < rows.size(0); i += out.size(0))
          kernel::add_row(row + i * width, 1.0F, width, sum.data());
        round_run(sum.data(), width, out.data_ptr<T>() + token * width);
      }
    });
  });
}

/// Computes out [T, width] = for each token the sum of the rows that belong to it.
void sum_listed(const at::Tensor& rows, const std::vector<std::int32_t>& tokens, const at::Tensor& out) {
  const std::int64_t width = rows.size(1);
  const at::Tensor sums = at::zeros(out.sizes(), rows.options().dtype(at::kFloat));
  float* const sum = sums.data_ptr<float>();
  kernel::dispatch(rows, [&]<class T>(T) {
    const T* const row = rows.data_ptr<T>();
    // Threads share the columns, because any row may belong to any token.
    at::parallel_for(0, width, kernel::grain(rows.size(0)), [&](std::int64_t begin, std::int64_t end) {
      for (std::size_t i = 0; i < tokens.size(); ++i)
        kernel::add_row(row + static_cast<std::int64_t>(i) * width + begin, 1.0F, end - begin,
                        sum + tokens[i] * width + begin);
    });
  });
  round_rows(sums, out);
}

/// Adds columns [begin, end) of every row, except rows of `padding`, in the order of the rows.
template <class T>
SLUICE_VECTOR_CLONES void add_columns(const std::int64_t* ids, std::int64_t padding, const T* rows,
                                      std::int64_t count, std::int64_t width, std::int64_t begin,
                                      std::int64_t end, float* grad, std::int64_t grad_stride) {
  for (std::int64_t t = 0; t < count; ++t) {
    if (ids[t] == padding) continue;
    const T* row = rows + t * width;
    float* target = grad + ids[t] * grad_stride;
    for (std::int64_t c = begin; c < end; ++c) target[c] += kernel::load(row[c]);
  }
}

}  // namespace

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

void round_rows(const at::Tensor& sums, const at::Tensor& out) {
  const float* const from = sums.data_ptr<float>();
  kernel::dispatch(out, [&]<class T>(T) {
    T* const to = out.data_ptr<T>();
    at::parallel_for(0, sums.numel(), kernel::grain(1), [&](std::int64_t begin, std::int64_t end) {
      round_run(from + begin, end - begin, to + begin);
    });
  });
}

at::Tensor sum_of_parts(const at::Tensor& rows, const std::vector<std::int32_t>& tokens,
                        std::int64_t token_count) {
  SLUICE_ASSERT(tokens.empty() || std::ssize(tokens) == rows.size(0), "{} rows do not divide among {} tokens",
                rows.size(0), tokens.size());
  at::Tensor out = at::empty({token_count, rows.size(1)}, rows.options());
  if (tokens.empty())
    sum_layers(rows, out);
  else
    sum_listed(rows, tokens, out);
  return out;
}

at::Tensor code_rows(const at::Tensor& x) {
  const std::int64_t width = x.size(1);
  const TokenRows rows(width);
  at::Tensor codes = at::empty({x.size(0), rows.bytes()}, x.options().dtype(at::kByte));
  auto* const row = reinterpret_cast<std::byte*>(codes.data_ptr<std::uint8_t>());
  kernel::dispatch(x, [&]<class T>(T) {
    const T* const values = x.data_ptr<T>();
    at::parallel_for(0, x.size(0), kernel::grain(width), [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> wide(static_cast<std::size_t>(width));
      for (std::int64_t i = begin; i < end; ++i) {
        kernel::load_row(values + i * width, width, wide.data());
        rows.write(wide.data(), row + i * rows.bytes());
      }
    });
  });
  return codes;
}

void read_coded_rows(const at::Tensor& codes, const at::Tensor& out) {
  const std::int64_t width = out.size(1);
  const TokenRows rows(width);
  const auto* const row = reinterpret_cast<const std::byte*>(codes.data_ptr<std::uint8_t>());
  kernel::dispatch(out, [&]<class T>(T) {
    const DType to = std::is_same_v<T, float> ? DType::kFloat32 : DType::kBFloat16;
    T* const values = out.data_ptr<T>();
    at::parallel_for(0, out.size(0), kernel::grain(width), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        rows.read(row + i * rows.bytes(), to, reinterpret_cast<std::byte*>(values + i * width));
    });
  });
}

void add_token_rows(const at::Tensor& rows, const at::Tensor& ids, std::int64_t padding,
                    const at::Tensor& table) {
  const std::int64_t width = rows.size(1);
  // Threads share the columns, so that each gradient row is summed in token order for any number of threads.
  kernel::dispatch(rows, [&]<class T>(T) {
    at::parallel_for(0, width, kernel::grain(rows.size(0)), [&](std::int64_t begin, std::int64_t end) {
      add_columns(ids.data_ptr<std::int64_t>(), padding, rows.data_ptr<T>(), rows.size(0), width, begin, end,
                  table.data_ptr<float>(), table.stride(0));
    });
  });
}

TokenLists list_tokens(const at::Tensor& chosen, std::span<const std::uint32_t> list_of_expert,
                       std::int64_t lists) {
  const std::int32_t* const choice = chosen.data_ptr<std::int32_t>();
  const std::int64_t k = chosen.size(1);
  std::vector<std::vector<std::int32_t>> tokens_of(static_cast<std::size_t>(lists));
  for (std::int64_t token = 0; token < chosen.size(0); ++token)
    for (std::int64_t slot = token * k; slot < (token + 1) * k; ++slot) {
      auto& tokens = tokens_of[list_of_expert[static_cast<std::size_t>(choice[slot])]];
      // A token that is last in a list is in the list already.
      if (tokens.empty() || tokens.back() != token) tokens.push_back(static_cast<std::int32_t>(token));
    }
  TokenLists all;
  for (const std::vector<std::int32_t>& tokens : tokens_of) {
    all.counts.push_back(std::ssize(tokens));
    all.tokens.insert(all.tokens.end(), tokens.begin(), tokens.end());
  }
  return all;
}

}  // namespace sluice::ops::cpu
