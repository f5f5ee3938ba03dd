#include "base/error.hpp"
#include "comm/nccl/nccl_communicator.hpp"

namespace sluice {

std::unique_ptr<Communicator> make_nccl_communicator(Communicator&) {
  fail({ExitCode::kBadConfig, "device.not_built"},
       "NCCL was asked for, but this build has none; configure it with -DSLUICE_CUDA=ON -DSLUICE_NCCL=ON");
}

bool has_nccl() { return false; }

std::string nccl_version_text() { return "no NCCL"; }

}  // namespace sluice
