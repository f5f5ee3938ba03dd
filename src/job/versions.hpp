// Versions of this program and of the libraries it was built with.
#pragma once

#include <string>

namespace sluice {

/// Adds a line of this program's own to the versions. Define one as a namespace-scope object.
class VersionLine {
 public:
  explicit VersionLine(std::string (*text)());
};

/// Lines for --version: Sluice, LibTorch, oneDNN (where it is used beside LibTorch), MPI, HDF5, CUDA, NCCL,
/// and those of VersionLine.
[[nodiscard]] std::string versions_text();

}  // namespace sluice
