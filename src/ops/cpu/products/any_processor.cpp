// Products with vectors of 16 bytes, which every processor has.
#include "ops/cpu/products/kernels.hpp"

namespace sluice::ops::cpu::products {
namespace {

#if defined(__aarch64__)
constexpr std::int64_t kRows = 8;  // Sums of 16 of the 32 registers.
#else
constexpr std::int64_t kRows = 4;
#endif
using Loops = MicroKernel<Vectors16, kRows, /*kVectors=*/2>;

}  // namespace

SLUICE_PRODUCT_KERNEL(kAnyProcessor, "on short vectors of float32", , Loops);

}  // namespace sluice::ops::cpu::products
