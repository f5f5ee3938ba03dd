// Products on processors with AVX2 and fused multiply-add.
#include "ops/cpu/products/kernels.hpp"

#if defined(__x86_64__)

namespace sluice::ops::cpu::products {
namespace {

using Loops = MicroKernel<Vectors32, /*kRows=*/6, /*kVectors=*/2>;

}  // namespace

SLUICE_PRODUCT_KERNEL(kAvx2, "on vectors of float32 (AVX2)", __attribute__((target("avx2,fma"))), Loops);

}  // namespace sluice::ops::cpu::products

#endif
