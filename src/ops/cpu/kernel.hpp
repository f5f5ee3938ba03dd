// Helpers of the hand-written loops over rows: element access, vector code for this machine, dispatch over
// dtypes. Internal to src/ops.
#pragma once

#include "base/error.hpp"
#include "base/round.hpp"
#include "ops/arithmetic/element.hpp"
#include "ops/arithmetic/exponential.hpp"
#include "ops/runtime/torch_version.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

// Compiles a function for several instruction sets; the loader picks one of them. Empty for other compilers,
// for other processors, and under sanitizers, whose runtime is not set up when the loader picks. The loader
// obeys no variable: to end at a level of the processor's, SLUICE_VECTOR_LEVEL is 3 or 1 while compiling.
// SLUICE_CLONES says that there are clones for AVX2 at least.
#if !defined(__x86_64__) || !defined(__GNUC__) || defined(__clang__) || defined(__SANITIZE_ADDRESS__) || \
    defined(__SANITIZE_THREAD__)
#define SLUICE_VECTOR_CLONES
#elif !defined(SLUICE_VECTOR_LEVEL)
#define SLUICE_CLONES
#define SLUICE_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#elif SLUICE_VECTOR_LEVEL == 3
#define SLUICE_CLONES
#define SLUICE_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define SLUICE_VECTOR_CLONES
#endif

namespace sluice::ops::cpu::kernel {

SLUICE_ELEMENT float load(float value) { return value; }
SLUICE_ELEMENT float load(at::BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.x) << 16);
}

/// Converts `value` to T, rounded to nearest even; NaN stays NaN. The function has no branches, so that loops
/// around it vectorise.
template <class T>
T store(float value);
template <>
SLUICE_ELEMENT float store<float>(float value) {
  return value;
}
template <>
SLUICE_ELEMENT at::BFloat16 store<at::BFloat16>(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t quiet_nan = (bits >> 16) | 0x40U;
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return {static_cast<std::uint16_t>(is_nan ? quiet_nan : rounded), at::BFloat16::from_bits()};
}

/// Converts the result of an arithmetic operation as store() does, in half the instructions: the NaN of an
/// arithmetic operation has no bits below those that a bfloat16 keeps, so it stays NaN.
template <class T>
T store_result(float value);
template <>
SLUICE_ELEMENT float store_result<float>(float value) {
  return value;
}
template <>
SLUICE_ELEMENT at::BFloat16 store_result<at::BFloat16>(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16),
          at::BFloat16::from_bits()};
}

/// Rounds the result of an arithmetic operation to what T can hold.
template <class T>
SLUICE_ELEMENT float rounded(float value) {
  return load(store_result<T>(value));
}

/// Convert elements to float32, and results back to T. For loops between the two conversions: a loop over two
/// element widths is slower.
template <class T>
SLUICE_ELEMENT void load_row(const T* from, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = load(from[i]);
}
template <class T>
SLUICE_ELEMENT void store_row(const float* from, std::int64_t count, T* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = store_result<T>(from[i]);
}

/// Interleave two rows of elements (first 0, second 0, first 1, second 1, ...) and separate them again;
/// elements of two bytes are moved in words of two, which halves the instructions.
template <class T>
SLUICE_VECTOR_CLONES void split_pairs(const T* pairs, std::int64_t count, T* first, T* second) {
  for (std::int64_t i = 0; i < count; ++i) {
    first[i] = pairs[2 * i];
    second[i] = pairs[2 * i + 1];
  }
}
template <>
SLUICE_VECTOR_CLONES inline void split_pairs(const at::BFloat16* pairs, std::int64_t count,
                                             at::BFloat16* first, at::BFloat16* second) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t both = 0;
    std::memcpy(&both, pairs + 2 * i, sizeof(both));
    first[i].x = static_cast<std::uint16_t>(both);
    second[i].x = static_cast<std::uint16_t>(both >> 16);
  }
}
template <class T>
SLUICE_VECTOR_CLONES void join_pairs(const T* first, const T* second, std::int64_t count, T* pairs) {
  for (std::int64_t i = 0; i < count; ++i) {
    pairs[2 * i] = first[i];
    pairs[2 * i + 1] = second[i];
  }
}
template <>
SLUICE_VECTOR_CLONES inline void join_pairs(const at::BFloat16* first, const at::BFloat16* second,
                                            std::int64_t count, at::BFloat16* pairs) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t both = first[i].x | static_cast<std::uint32_t>(second[i].x) << 16;
    std::memcpy(pairs + 2 * i, &both, sizeof(both));
  }
}

/// Computes e^r for |r| <= log(2) / 2.
SLUICE_ELEMENT float exponential_of_remainder(float r) {
  float e = 0;
  arithmetic::exponential_of_remainder(r, e);
  return e;
}

/// Computes e^x to about 1 ulp in straight-line code that vectorises (Cody-Waite reduction). Overflows to
/// infinity above 88.72, flushes to 0 below -87.33; NaN stays NaN.
SLUICE_ELEMENT float exponential(float x) {
  const float clamped = x < -87.33F ? -87.33F : (x > 88.72F ? 88.72F : x);
  const float shifted =
      clamped * 1.44269504F + 12582912.0F;  // Adding 1.5 * 2^23 puts the integer part into the low bits.
  const float n = shifted - 12582912.0F;
  const float r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;
  const float p = exponential_of_remainder(r);
  // 2^n is computed as two factors, because 2^128 is no float.
  const std::int32_t exponent =
      std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(12582912.0F);
  const std::int32_t half = exponent / 2;
  const float low = std::bit_cast<float>((half + 127) << 23);
  const float high = std::bit_cast<float>((exponent - half + 127) << 23);
  const float value = p * low * high;
  return x < -87.33F ? 0.0F : (x > 88.72F ? HUGE_VALF : (x != x ? x : value));
}

/// Computes exponential() in fewer instructions for x that is positive by rounding only; returns 0 below
/// -87.68, where the exponent field is 0.
SLUICE_ELEMENT float exponential_below(float x) {
  const float clamped = x < -88.0F ? -88.0F : x;
  const float shifted = clamped * 1.44269504F + 12582912.0F;
  const float n = shifted - 12582912.0F;
  const float r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;
  const std::int32_t exponent =
      std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(12582912.0F);
  return exponential_of_remainder(r) * std::bit_cast<float>((exponent + 127) << 23);
}

/// Computes 1 / (1 + e^-x); 0 below -87.68. The loop uses e^-|x|, which needs no second bound: compilers turn
/// a second bound into a branch, and then do not vectorise.
SLUICE_ELEMENT float sigmoid(float x) {
  const float e = exponential_below(-std::abs(x));
  return (x < 0 ? e : 1.0F) / (1.0F + e);
}

/// Adds weight * row to sum.
template <class T>
SLUICE_VECTOR_CLONES void add_row(const T* row, float weight, std::int64_t width, float* sum) {
  for (std::int64_t i = 0; i < width; ++i) sum[i] += weight * load(row[i]);
}

/// Returns the dot product of a and b, summed in float32.
template <class T>
SLUICE_VECTOR_CLONES float dot(const T* a, const T* b, std::int64_t width) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < width; ++i) sum += load(a[i]) * load(b[i]);
  return sum;
}

/// The rows of a matrix, which may be strided.
template <class T>
struct Rows {
  explicit Rows(const at::Tensor& matrix) : data(matrix.data_ptr<T>()), stride(matrix.stride(0)) {}
  T* operator[](std::int64_t row) const { return data + row * stride; }
  T* data;
  std::int64_t stride;
};

/// Returns the elements of a bfloat16 tensor as their bit patterns.
inline std::uint16_t* bits(const at::Tensor& tensor) {
  return static_cast<std::uint16_t*>(tensor.data_ptr());
}

/// Calls f with a value of the tensor's element type, float or at::BFloat16.
template <class F>
void dispatch(const at::Tensor& tensor, F&& f) {
  if (tensor.scalar_type() == at::kFloat) return f(float{});
  SLUICE_ASSERT(tensor.scalar_type() == at::kBFloat16, "tensors must be float32 or bfloat16");
  f(at::BFloat16{});
}

/// Returns the least number of rows for a thread, so that each thread has about 32 thousand elements.
inline std::int64_t grain(std::int64_t row_elements) {
  return std::max<std::int64_t>(1, 32768 / std::max<std::int64_t>(1, row_elements));
}

/// Calls visit(first element, count) for each block; threads share the blocks.
template <class Visit>
void for_each_block(std::int64_t n, std::int64_t block, Visit&& visit) {
  at::parallel_for(0, divide_up(n, block), kernel::grain(block), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) visit(b * block, std::min(block, n - b * block));
  });
}

}  // namespace sluice::ops::cpu::kernel
