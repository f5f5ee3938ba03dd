// Products on processors with AVX.
#include "ops/cpu/products/kernels.hpp"

#if defined(__x86_64__)

namespace sluice::ops::cpu::products {
namespace {

using Loops = MicroKernel<Vectors32, /*kRows=*/6, /*kVectors=*/2>;

}  // namespace

SLUICE_PRODUCT_KERNEL(kAvx, "on vectors of float32 (AVX)", __attribute__((target("avx"))), Loops);

}  // namespace sluice::ops::cpu::products

#endif
