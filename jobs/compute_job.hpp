// Registration of a job that computes with LibTorch.
#pragma once

#include "job/job.hpp"
#include "ops/runtime/library.hpp"
#include "ops/runtime/tensor_memory.hpp"

#include <string>

namespace sluice {

/// Lines about what computes in this process, which follows from system and processor when the program starts,
/// not when it is built: the BLAS, and which kernel serves which form of weights.
[[nodiscard]] inline std::string library_lines() {
  return "BLAS: " + ops::blas_text() +
         (ops::blas_has_own_threads() ? " (slower with several threads a rank)" : "") +
         "\nkernels: " + ops::products_text() + ", " + ops::few_products_text();
}

/// The job `run`: LibTorch is started before it and limited to the job's device memory; exceptions of
/// LibTorch become Errors.
template <void (*run)(JobContext& context)>
[[nodiscard]] Job computing() {
  return {.run = [](JobContext& context) { ops::with_plain_errors([&] { run(context); }); },
          .start = ops::start_library,
          .version_line = library_lines,
          .limit_device_memory = ops::limit_tensor_memory};
}

}  // namespace sluice
