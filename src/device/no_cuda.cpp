#include "base/error.hpp"
#include "device/backend.hpp"

namespace sluice::device {
namespace {

[[noreturn]] void refuse() {
  fail(ExitCode::kBadConfig,
       "device memory was asked for, but this build has no CUDA; configure it with -DSLUICE_CUDA=ON");
}

}  // namespace

std::byte* allocate_zeroed(std::int64_t) { refuse(); }

void release(std::byte*) noexcept {}

std::int64_t available_bytes() { return 0; }

bool owns(const void*) { return false; }

void begin_copy(void*, const void*, std::int64_t) { refuse(); }

void synchronize() { refuse(); }

}  // namespace sluice::device
