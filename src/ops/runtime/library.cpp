#include "ops/runtime/library.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/memory/memory.hpp"
#include "ops/cpu/coded_rows.hpp"
#include "ops/cpu/level.hpp"
#include "ops/cpu/matmul.hpp"
#include "ops/cpu/onednn_matmul.hpp"
#include "ops/cpu/tensor_heap.hpp"
#include "ops/matmul.hpp"
#include "ops/runtime/tensor_device.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <dlfcn.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <tuple>

namespace sluice::ops {
namespace {

/// Threads of a BLAS, as OpenBLAS's openblas_get_parallel() returns them; kUnknown for other libraries.
enum class BlasThreads : int { kUnknown = -1, kNone = 0, kOwn = 1, kOpenMp = 2 };

BlasThreads blas_threads() {
  using GetParallel = int (*)();
  const auto get_parallel = reinterpret_cast<GetParallel>(dlsym(RTLD_DEFAULT, "openblas_get_parallel"));
  return get_parallel ? static_cast<BlasThreads>(get_parallel()) : BlasThreads::kUnknown;
}

/// Products are cut for LibTorch's threads (ops/cpu/matmul.cpp). Debian's LibTorch calls whatever BLAS the
/// system chose. A BLAS with threads of its own is set to one thread per call. A BLAS on OpenMP's threads has
/// their number already, and must not be set: OpenBLAS 0.3.34 then waits for ever inside parallel regions
/// (its issue 5947).
void set_thread_count(int threads) {
  at::set_num_threads(threads);
  if (blas_threads() != BlasThreads::kOwn) return;
  using SetThreads = void (*)(int);
  if (const auto set_blas_threads =
          reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads")))
    set_blas_threads(1);
}

double measure_product_rate(DType dtype, MemoryKind memory) {
  constexpr std::int64_t kSize = 1024;
  constexpr double kLongEnough = 0.02;  // seconds, long beside the time that a GPU takes to begin
  const c10::AutoGradMode no_grad(false);
  const at::Tensor a = at::ones({kSize, kSize}, options_in(memory, scalar_type(dtype)));
  const at::Tensor out = at::ones_like(a);
  ops::matmul(out, a, a);  // not timed: the first product compiles its kernel
  for (int products = 2;; products *= 2) {
    const Stopwatch watch;
    for (int i = 0; i < products; ++i) ops::matmul(out, a, a);
    static_cast<void>(out[0][0].item<float>());  // waits for a device, which may not have begun
    const double seconds = watch.seconds();
    if (seconds >= kLongEnough) return products * 2 * std::pow(static_cast<double>(kSize), 3) / seconds;
  }
}

}  // namespace

int thread_count() { return at::get_num_threads(); }

std::string blas_text() {
  switch (blas_threads()) {
    case BlasThreads::kNone:
      return "OpenBLAS on one thread";
    case BlasThreads::kOwn:
      return "OpenBLAS on threads of its own";
    case BlasThreads::kOpenMp:
      return "OpenBLAS on OpenMP threads";
    case BlasThreads::kUnknown:
      break;
  }
  return "another BLAS";
}

bool blas_has_own_threads() { return blas_threads() == BlasThreads::kOwn; }

void start_library(int threads, MemoryKind memory) {
  keep_freed_memory();  // the next step needs the memory that this one frees
  cpu::use_tensor_heap();
  set_thread_count(threads);
  const c10::AutoGradMode no_grad(false);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor a = at::ones({64, 64}, options_in(memory, type));
    SLUICE_ASSERT(ops::matmul(a, a)[0][0].item<float>() == 64.0f, "the matrix product of ones is wrong");
  }
}

std::string means_text() {
  const int threads = thread_count();
  return fmt::format("{} thread{}, {}", threads, threads == 1 ? "" : "s", products_text());
}

std::string products_text() {
  const bool packs_codes = cpu::multiplies_on_tiles() || !cpu::onednn_has_products();
  return fmt::format("products of bfloat16{} {}", packs_codes ? " and of codes" : "", cpu::matmul_means());
}

std::string few_products_text() {
  const std::string_view exact = cpu::exact_forms(), int8 = cpu::int8_means();
  return fmt::format("of a few tokens {}; int8 {}",
                     exact.empty() ? "with codes row by row"
                                   : fmt::format("with {} as they lie, with other codes row by row", exact),
                     int8.empty() ? "not here" : fmt::format("by {}", int8));
}

std::string few_rows_text() {
  if (cpu::int8_means().empty()) return "exact: this processor has neither AVX2 nor VNNI, which int8 needs";
  return fmt::format(
      "a few tokens in int8 ({}) with INT4, MXFP4, NVFP4, int8 and NF4, exact with FP8 and plain weights",
      cpu::int8_means());
}

double product_rate(DType dtype, MemoryKind memory) {
  static std::map<std::tuple<DType, MemoryKind, int>, double> measured;
  const std::tuple setting(dtype, memory, thread_count());
  const auto found = measured.find(setting);
  if (found != measured.end()) return found->second;
  return measured[setting] = measure_product_rate(dtype, memory);
}

void with_plain_errors(const std::function<void()>& action) {
  try {
    action();
  } catch (const c10::OutOfMemoryError& e) {
    fail(ExitCode::kTooLittle, "LibTorch: {}", e.what_without_backtrace());
  } catch (const c10::Error& e) {
    fail(ExitCode::kInternal, "LibTorch: {}", e.what_without_backtrace());
  }
}

}  // namespace sluice::ops
