// What this program is made of.
#pragma once

#include <string>

namespace sluice {

/// Lines for --version: Sluice, LibTorch, oneDNN (where it is used beside LibTorch), MPI, HDF5, NCCL.
[[nodiscard]] std::string versions_text();

}  // namespace sluice
