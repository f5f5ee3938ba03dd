#include "job/versions.hpp"

#include "base/version.hpp"
#include "comm/mpi/mpi_environment.hpp"
#include "comm/nccl/nccl_communicator.hpp"
#include "device/devices.hpp"
#include "io/hdf5.hpp"
#include "job/job.hpp"

#include <fmt/format.h>

namespace sluice {

std::string versions_text() {
  const Job* const compute = find_job(JobKind::kTrain);
  const bool has_blas = compute != nullptr && compute->version_line != nullptr;
  return fmt::format("sluice {} ({})\nLibTorch {}\noneDNN {}\n{}\nHDF5 {}\n{}\n{}\n{}", version(),
                     git_revision(), SLUICE_TORCH_VERSION, SLUICE_ONEDNN_VERSION,
                     MpiEnvironment::library_version(), hdf5::library_version(), cuda_version_text(),
                     nccl_version_text(),
                     has_blas ? compute->version_line()
                              : "BLAS: sluice-train --version names the one that it computes with");
}

}  // namespace sluice
