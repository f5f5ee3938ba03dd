// Products on processors with AVX2 and fused multiply-add.
#include "ops/cpu/products/kernels.hpp"
#include "ops/cpu/tiles/instructions.hpp"

#if defined(__x86_64__)

namespace sluice::ops::cpu::products {
namespace {

using Loops = MicroKernel<Vectors32, /*kRows=*/6, /*kVectors=*/2>;

bool serves() {
  return user_allows({"AVX2", "AVX512", "AVX10"}) && __builtin_cpu_supports("avx2") != 0 &&
         __builtin_cpu_supports("fma") != 0;
}

}  // namespace

SLUICE_PRODUCT_KERNEL(kAvx2, "on vectors of float32 (AVX2)", __attribute__((target("avx2,fma"))), Loops,
                      serves);

}  // namespace sluice::ops::cpu::products

#endif
