#include "ops/threads.hpp"

#include <ATen/Parallel.h>

#include <dlfcn.h>

namespace sluice::ops {

void set_thread_count(int threads) {
  at::set_num_threads(threads);
  // Debian's LibTorch calls whatever BLAS the system chose; OpenBLAS keeps a thread pool of its own.
  using SetThreads = void (*)(int);
  if (const auto set_blas_threads =
          reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads")))
    set_blas_threads(threads);
}

}  // namespace sluice::ops
