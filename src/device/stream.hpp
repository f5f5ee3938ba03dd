// Streams: queues of work on an accelerator.
#pragma once

#include "device/memory.hpp"

#include <cstdint>
#include <memory>

namespace sluice {

/// Stream of LibTorch's operations, of our kernels, and of copies (device/copy.hpp).
inline constexpr void* kComputeStream = nullptr;

/// A stream of the current GPU: its work runs in order, concurrently with the host and with other streams.
/// Error(kBadConfig) in a build without CUDA.
class DeviceStream {
 public:
  DeviceStream();
  /// Destroys the handle; work in the stream still runs.
  ~DeviceStream();
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  /// Handle of the stream, as calls of a Communicator take it.
  [[nodiscard]] void* handle() const { return handle_; }
  /// Makes later work on this stream wait for all work queued on the compute stream so far.
  void follow_compute();
  /// Queues a copy between memory of any kind. Both ends must stay valid until it has run.
  void copy(void* to, const void* from, std::int64_t bytes);
  /// Whether all work of the stream has run. Never blocks. Error(kInternal) with the device's error if it
  /// failed.
  [[nodiscard]] bool is_idle() const;

 private:
  void* handle_;
  void* event_;
};

/// A stream for work beside the compute stream. If this process computes in main memory it has no stream, and
/// orders nothing.
class SideStream {
 public:
  /// `memory`: the kind of memory that is computed in.
  explicit SideStream(MemoryKind memory)
      : stream_(memory == MemoryKind::kDevice ? std::make_unique<DeviceStream>() : nullptr) {}

  /// Stream for a Communicator's call that reads results computed so far, and writes memory that may be
  /// overwritten by then. Work::make_stream_wait() makes the compute stream wait for the call's result.
  [[nodiscard]] void* after_compute() {
    if (stream_) stream_->follow_compute();
    return stream_ ? stream_->handle() : kComputeStream;
  }

 private:
  std::unique_ptr<DeviceStream> stream_;
};

}  // namespace sluice
