// The rest of src/device/no_cuda.cpp, in whose place backend.cpp stands: no GPUs to choose among. What computes on this device
// does so whatever device.kind says (use_device.cpp).
#include "base/error.hpp"
#include "device/devices.hpp"
#include "device/stream.hpp"
#include "other_device/memory.hpp"
#include "other_device/stream.hpp"

#include <cstddef>
#include <cstring>

namespace sluice {

bool has_cuda() { return false; }

Gpus list_gpus() { return {{}, "this program computes on a device that is none"}; }

void use_gpu(int) { fail(ExitCode::kBadConfig, "this program has no GPUs"); }

std::string cuda_version_text() { return "no CUDA"; }

/// All share the one stream there is.
DeviceStream::DeviceStream() : handle_(nullptr) {}

DeviceStream::~DeviceStream() { handle_ = nullptr; }  // the one stream stays

void DeviceStream::copy(void* to, const void* from, std::int64_t bytes) {
  other_device::queue([=] {
    std::memcpy(other_device::readable(to), other_device::readable(from), static_cast<std::size_t>(bytes));
  });
}

bool DeviceStream::is_idle() const {
  other_device::finish();
  return true;
}

}  // namespace sluice
