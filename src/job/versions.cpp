#include "job/versions.hpp"

#include "base/version.hpp"
#include "comm/mpi/mpi_environment.hpp"
#include "comm/nccl/nccl_communicator.hpp"
#include "io/hdf5.hpp"

#include <fmt/format.h>

namespace sluice {

std::string versions_text() {
  return fmt::format("sluice {} ({})\nLibTorch {}\noneDNN {}\n{}\nHDF5 {}\n{}", version(), git_revision(),
                     SLUICE_TORCH_VERSION, SLUICE_ONEDNN_VERSION, MpiEnvironment::library_version(),
                     hdf5::library_version(), nccl_version_text());
}

}  // namespace sluice
