// Products on processors with AVX-512, for those that have no vectors of bfloat16.
#include "ops/cpu/products/kernels.hpp"

#if defined(__x86_64__)

namespace sluice::ops::cpu::products {
namespace {

using Loops = MicroKernel<Vectors64, /*kRows=*/12, /*kVectors=*/2>;

}  // namespace

SLUICE_PRODUCT_KERNEL(kAvx512, "on vectors of float32 (AVX-512)",
                      __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma"))), Loops);

}  // namespace sluice::ops::cpu::products

#endif
