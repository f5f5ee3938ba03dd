#include "base/error.hpp"
#include "device/backend.hpp"

namespace sluice::device {

std::byte* allocate_zeroed(std::int64_t) {
  fail(ExitCode::kBadConfig,
       "device memory was asked for, but this build has no CUDA; configure it with -DSLUICE_CUDA=ON");
}

void release(std::byte*) noexcept {}

std::int64_t available_bytes() { return 0; }

}  // namespace sluice::device
