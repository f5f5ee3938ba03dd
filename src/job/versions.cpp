#include "job/versions.hpp"

#include "base/version.hpp"
#include "comm/mpi/mpi_environment.hpp"
#include "comm/nccl/nccl_communicator.hpp"
#include "device/devices.hpp"
#include "io/hdf5.hpp"

#include <fmt/format.h>

#include <vector>

namespace sluice {
namespace {

std::vector<std::string (*)()>& own_lines() {
  static std::vector<std::string (*)()> lines;
  return lines;
}

}  // namespace

VersionLine::VersionLine(std::string (*text)()) { own_lines().push_back(text); }

std::string versions_text() {
  std::string text =
      fmt::format("sluice {} ({})\nLibTorch {}\noneDNN {}\n{}\nHDF5 {}\n{}\n{}", version(), git_revision(),
                  SLUICE_TORCH_VERSION, SLUICE_ONEDNN_VERSION, MpiEnvironment::library_version(),
                  hdf5::library_version(), cuda_version_text(), nccl_version_text());
  if (own_lines().empty()) text += "\nBLAS: sluice-train --version names the one that it computes with";
  for (const auto line : own_lines()) text.append("\n").append(line());
  return text;
}

}  // namespace sluice
