#include "ops/cpu/products/kernels.hpp"

#include "ops/cpu/products/arm.hpp"

#include <algorithm>
#include <iterator>

namespace sluice::ops::cpu::products {
namespace {

// The best first; the last one serves everywhere.
constexpr const ProductKernel* kKernels[] = {
#if defined(__x86_64__)
    &kAvx512, &kAvx2, &kAvx,
#elif defined(__aarch64__)
    &kNeon,
#endif
    &kAnyProcessor};

}  // namespace

const ProductKernel& kernel_here() {
  static const ProductKernel& here =
      **std::ranges::find_if(kKernels, [](const ProductKernel* kernel) { return kernel->serves(); });
  return here;
}

}  // namespace sluice::ops::cpu::products
