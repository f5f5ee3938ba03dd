#include "base/error.hpp"
#include "device/backend.hpp"
#include "device/devices.hpp"
#include "device/stream.hpp"

namespace sluice::device {
namespace {

[[noreturn]] void refuse() {
  fail({ExitCode::kBadConfig, "device.not_built"},
       "device memory was asked for, but this build has no CUDA; configure it with -DSLUICE_CUDA=ON");
}

}  // namespace

std::byte* allocate_zeroed(std::int64_t) { refuse(); }

void release(std::byte*) noexcept {}

std::byte* allocate_pinned(std::int64_t) { refuse(); }

void release_pinned(std::byte*) noexcept {}

Occupancy occupancy() { return {}; }

bool owns(const void*) { return false; }

void begin_copy(void*, const void*, std::int64_t) { refuse(); }

void synchronize() { refuse(); }

}  // namespace sluice::device

namespace sluice {

bool has_cuda() { return false; }

DeviceStream::DeviceStream() : handle_(nullptr), event_(nullptr) {
  fail({ExitCode::kBadConfig, "device.not_built"},
       "this build has no CUDA; configure it with -DSLUICE_CUDA=ON");
}

DeviceStream::~DeviceStream() { handle_ = event_ = nullptr; }  // a build without CUDA makes no streams

void DeviceStream::follow_compute() {}

void DeviceStream::copy(void*, const void*, std::int64_t) {}

bool DeviceStream::is_idle() const { return true; }

Gpus list_gpus() { return {{}, "this build has no CUDA"}; }

void use_gpu(int) {
  fail({ExitCode::kBadConfig, "device.not_built"},
       "this build has no CUDA; configure it with -DSLUICE_CUDA=ON");
}

std::string cuda_version_text() { return "no CUDA"; }

}  // namespace sluice
