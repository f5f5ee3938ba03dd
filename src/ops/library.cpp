#include "ops/library.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "ops/product.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <dlfcn.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace sluice::ops {
namespace {

void set_thread_count(int threads) {
  at::set_num_threads(threads);
  // Debian's LibTorch calls whatever BLAS the system chose; OpenBLAS keeps a thread pool of its own.
  using SetThreads = void (*)(int);
  if (const auto set_blas_threads =
          reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads")))
    set_blas_threads(threads);
}

/// What a step frees the next step needs again: without this the C library gives most of it back to the
/// system, which clears each page anew, 3.5 thousand per rank and step of a small model.
void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kLargestThreshold = 32 << 20;  // of the C library
  mallopt(M_MMAP_THRESHOLD, kLargestThreshold);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

}  // namespace

void start_library(int threads) {
  keep_freed_memory();
  set_thread_count(threads);
  const c10::AutoGradMode no_grad(false);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor a = at::ones({64, 64}, type);
    SLUICE_ASSERT(at::matmul(a, a)[0][0].item<float>() == 64.0f, "a product of ones is wrong");
  }
}

double product_rate(DType dtype) {
  constexpr std::int64_t kSize = 1024;
  constexpr int kProducts = 5;
  const c10::AutoGradMode no_grad(false);
  const at::Tensor a = at::ones({kSize, kSize}, dtype == DType::kFloat32 ? at::kFloat : at::kBFloat16);
  const at::Tensor out = at::ones_like(a);
  double least_seconds = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kProducts; ++i) {
    const Stopwatch watch;
    product(out, a, a);
    least_seconds = std::min(least_seconds, watch.seconds());
  }
  return 2 * std::pow(static_cast<double>(kSize), 3) / least_seconds;
}

void with_plain_errors(const std::function<void()>& action) {
  try {
    action();
  } catch (const c10::Error& e) {
    fail(ExitCode::kInternal, "LibTorch: {}", e.what_without_backtrace());
  }
}

}  // namespace sluice::ops
