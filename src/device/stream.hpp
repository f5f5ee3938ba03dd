// Queues of an accelerator.
#pragma once

#include "device/memory.hpp"

#include <cstdint>
#include <memory>

namespace sluice {

/// The queue of what is computed, LibTorch's operations and our kernels, and of copies (device/copy.hpp).
inline constexpr void* kComputeStream = nullptr;

/// A queue of the current GPU: what is put into it runs in order, beside the host and beside other queues.
/// Without CUDA in the build: Error(kBadConfig).
class DeviceStream {
 public:
  DeviceStream();
  /// Work in the stream still runs.
  ~DeviceStream();
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  /// Handle for calls of a Communicator.
  [[nodiscard]] void* handle() const { return handle_; }
  /// Makes later work on this stream wait for all work that the compute stream has been given.
  void follow_compute();
  /// Between memory of any kind. Both ends must stay valid until it has run.
  void copy(void* to, const void* from, std::int64_t bytes);
  /// Whether all that was put into it has run. Never blocks. Error(kInternal) with what went wrong on the
  /// device.
  [[nodiscard]] bool is_idle() const;

 private:
  void* handle_;
  void* event_;
};

/// A queue for what goes on beside what is computed. Where main memory is computed in there is none, and
/// nothing to order.
class SideStream {
 public:
  SideStream()
      : stream_(compute_memory() == MemoryKind::kDevice ? std::make_unique<DeviceStream>() : nullptr) {}

  /// Stream for a Communicator's call that reads what was computed so far, and writes where that may be
  /// overwritten. Work::make_stream_wait() makes the compute stream wait for what it brings.
  [[nodiscard]] void* after_compute() {
    if (stream_) stream_->follow_compute();
    return stream_ ? stream_->handle() : kComputeStream;
  }

 private:
  std::unique_ptr<DeviceStream> stream_;
};

}  // namespace sluice
