// Memory of the current GPU with values of the host in it.
#pragma once

#include "comm/wait.hpp"
#include "device/memory.hpp"
#include "device/stream.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::test {

/// Waits for what is in the stream.
inline void finish(const DeviceStream& stream) {
  wait_for([&] { return stream.is_idle(); }, [] { return std::string("the device"); }, {"test", 20},
           {"device_copy", 1, 0});
}

template <class T>
class OnDevice {
 public:
  OnDevice(DeviceStream& stream, const std::vector<T>& values)
      : stream_(stream), count_(values.size()), block_(allocate(MemoryKind::kDevice, bytes(), "a test")) {
    stream_.copy(block_.data(), values.data(), bytes());
    finish(stream_);
  }
  [[nodiscard]] T* data() const { return reinterpret_cast<T*>(block_.data()); }
  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(count_ * sizeof(T)); }
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> out(count_);
    stream_.copy(out.data(), block_.data(), bytes());
    finish(stream_);
    return out;
  }

 private:
  DeviceStream& stream_;
  std::size_t count_;
  MemoryBlock block_;
};

}  // namespace sluice::test
