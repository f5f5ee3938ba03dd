// Qualifiers of functions that work on one element of an array, for every processor: they are compiled into
// the loop or kernel that calls them. Internal to src/ops.
#pragma once

#include <cstddef>
#include <cstdint>

// Forces inlining: a call would prevent the vectorisation of a loop, and would not use the instruction set
// that the calling function was compiled for.
#ifdef __CUDACC__
#define SLUICE_ELEMENT __host__ __device__ __forceinline__
#define SLUICE_VECTOR_LOOP
#else
#define SLUICE_ELEMENT __attribute__((always_inline)) inline
#define SLUICE_VECTOR_LOOP _Pragma("omp simd")
#endif

namespace sluice::ops::arithmetic {

template <class T>
SLUICE_ELEMENT T* at_element(std::byte* data, std::int64_t element) {
  return reinterpret_cast<T*>(data) + element;
}
template <class T>
SLUICE_ELEMENT const T* at_element(const std::byte* data, std::int64_t element) {
  return reinterpret_cast<const T*>(data) + element;
}

}  // namespace sluice::ops::arithmetic
