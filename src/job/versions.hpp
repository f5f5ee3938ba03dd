// Versions of this program and of the libraries it was built with.
#pragma once

#include <string>

namespace sluice {

/// Lines for --version: Sluice, LibTorch, oneDNN (if used beside LibTorch), MPI, HDF5, CUDA, NCCL, and the
/// BLAS of a program that computes.
[[nodiscard]] std::string versions_text();

}  // namespace sluice
