// Conversion between element types by instructions of x86 processors. Private to dtype.cpp, except for the
// question whether a processor has them.
#pragma once

#include "base/dtype.hpp"

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#define SLUICE_AVX2 __attribute__((target("avx2,f16c")))

namespace sluice::avx2 {

inline constexpr std::int64_t kLanes = 8;

/// Whether the processor has AVX2 and F16C; not every compiler's __builtin_cpu_supports knows the latter.
inline bool is_available() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 &&
         (ecx & bit_F16C) != 0;
}

// Functions that load and store eight elements at any alignment.

struct Float32Lanes {
  static constexpr std::int64_t kBytes = kLanes * 4;
  SLUICE_AVX2 static __m256 load(const std::byte* from) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(from));
  }
  SLUICE_AVX2 static void store(__m256 values, std::byte* to) {
    _mm256_storeu_ps(reinterpret_cast<float*>(to), values);
  }
};

struct Float16Lanes {
  static constexpr std::int64_t kBytes = kLanes * 2;
  SLUICE_AVX2 static __m256 load(const std::byte* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  SLUICE_AVX2 static void store(__m256 values, std::byte* to) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
  }
};

struct BFloat16Lanes {
  static constexpr std::int64_t kBytes = kLanes * 2;
  SLUICE_AVX2 static __m256 load(const std::byte* from) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  SLUICE_AVX2 static void store(__m256 values, std::byte* to) {
    const __m256i bits = _mm256_castps_si256(values);
    const __m256i is_odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i half = _mm256_add_epi32(is_odd, _mm256_set1_epi32(0x7fff));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(values, values, _CMP_UNORD_Q));
    const __m256i narrowed = _mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fc0), is_nan);
    const __m128i packed =
        _mm_packus_epi32(_mm256_castsi256_si128(narrowed), _mm256_extracti128_si256(narrowed, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), packed);
  }
};

template <class From, class To>
SLUICE_AVX2 inline void convert_lanes(const std::byte* source, std::byte* target, std::int64_t vectors) {
  for (std::int64_t i = 0; i < vectors; ++i)
    To::store(From::load(source + i * From::kBytes), target + i * To::kBytes);
}

template <class From>
inline void convert_lanes_from(const std::byte* source, std::byte* target, DType to, std::int64_t vectors) {
  switch (to) {
    case DType::kFloat32:
      return convert_lanes<From, Float32Lanes>(source, target, vectors);
    case DType::kBFloat16:
      return convert_lanes<From, BFloat16Lanes>(source, target, vectors);
    default:
      return convert_lanes<From, Float16Lanes>(source, target, vectors);
  }
}

}  // namespace sluice::avx2
#endif

namespace sluice {

/// Converts elements of `source` as convert_elements() does, as many as fill whole vectors, and returns their
/// number: 0 on a processor without AVX2 and F16C, and for float64. Requires is_convertible(from, to) and
/// from != to.
#if defined(__x86_64__)
inline std::int64_t convert_with_avx2(const std::byte* source, DType from, void* target, DType to,
                                      std::int64_t count) {
  static const bool is_available = avx2::is_available();
  if (!is_available || from == DType::kFloat64 || to == DType::kFloat64) return 0;
  const std::int64_t vectors = count / avx2::kLanes;
  auto* const bytes = static_cast<std::byte*>(target);
  switch (from) {
    case DType::kFloat32:
      avx2::convert_lanes_from<avx2::Float32Lanes>(source, bytes, to, vectors);
      break;
    case DType::kBFloat16:
      avx2::convert_lanes_from<avx2::BFloat16Lanes>(source, bytes, to, vectors);
      break;
    default:
      avx2::convert_lanes_from<avx2::Float16Lanes>(source, bytes, to, vectors);
  }
  return vectors * avx2::kLanes;
}

#else
inline std::int64_t convert_with_avx2(const std::byte*, DType, void*, DType, std::int64_t) { return 0; }
#endif

}  // namespace sluice
