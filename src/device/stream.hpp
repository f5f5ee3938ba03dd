// Queues of an accelerator.
#pragma once

#include <cstdint>

namespace sluice {

/// A queue of the current GPU: what is put into it runs in order, beside the host and beside other queues. Without CUDA in the
/// build: Error(kBadConfig).
class DeviceStream {
 public:
  DeviceStream();
  /// What is in it still runs.
  ~DeviceStream();
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  /// For Communicator's calls.
  [[nodiscard]] void* handle() const { return handle_; }
  /// Between memory of any kind. Both ends must stay valid until it has run.
  void copy(void* to, const void* from, std::int64_t bytes);
  /// Whether all that was put into it has run. Never blocks. Error(kInternal) with what went wrong on the device.
  [[nodiscard]] bool is_idle() const;

 private:
  void* handle_;
};

}  // namespace sluice
