// The rest of src/device/no_cuda.cpp, in whose place backend.cpp stands: as many devices as ranks could want,
// of which each takes one (device.kind). All are the memory and the stream of the process that takes it.
#include "base/error.hpp"
#include "device/devices.hpp"
#include "device/stream.hpp"
#include "other_device/memory.hpp"
#include "other_device/stream.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstring>

namespace sluice {

bool has_cuda() { return true; }

Gpus list_gpus() {
  Gpus gpus;
  for (int index = 0; index < 8; ++index)
    gpus.list.push_back(
        {"Other device", fmt::format("other device {}", index), "0.0", other_device::kCapacity, false});
  return gpus;
}

void use_gpu(int) {}

std::string cuda_version_text() { return "no CUDA"; }

/// All share the one stream there is.
DeviceStream::DeviceStream() : handle_(nullptr), event_(nullptr) {}

DeviceStream::~DeviceStream() { handle_ = event_ = nullptr; }  // the one stream stays

void DeviceStream::follow_compute() {}

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
