#include "base/error.hpp"
#include "comm/nccl/nccl_communicator.hpp"

namespace sluice {

std::unique_ptr<Communicator> make_nccl_communicator(Communicator&) {
  fail(ExitCode::kBadConfig,
       "NCCL was asked for, but this build has none; configure it with -DSLUICE_CUDA=ON -DSLUICE_NCCL=ON");
}

std::string nccl_version_text() { return "no NCCL"; }

}  // namespace sluice
