// Choice of the devices of a job: GPUs or CPU for all ranks, and which GPU for each; connects these GPUs.
#pragma once

#include "comm/communicator.hpp"
#include "config/job_config.hpp"
#include "device/devices.hpp"
#include "device/memory.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// GPUs that a rank found on its machine.
struct DeviceClaim {
  int visible = 0;  ///< number of GPUs that the rank sees
  /// Index of the GPU that the rank takes: its number on the node, or the only one; -1: none is left.
  int index = -1;
  Gpu gpu;           ///< the chosen GPU
  std::string lack;  ///< reason why the rank sees no GPU, or ""
};

/// Claims a device for the rank with `number` among the ranks of its node, from 0.
[[nodiscard]] DeviceClaim claim_device(const Gpus& gpus, int number);

/// Device that all ranks of the job compute on; the same on all ranks.
struct DeviceChoice {
  DeviceKind kind = DeviceKind::kCpu;  ///< kind of the device, kCpu or kCuda
  std::vector<Gpu> gpus;               ///< GPU of each rank; empty with kCpu
  std::string lack;                    ///< reason for kCpu; "" if no GPU was looked for

  /// Kind of memory that ranks compute in: weights, activations, gradients and the optimizer's state.
  [[nodiscard]] MemoryKind memory() const {
    return kind == DeviceKind::kCuda ? MemoryKind::kDevice : MemoryKind::kPrivate;
  }
};

/// Claims and nodes of all ranks. kAuto takes GPUs where every rank has one and the CPU where none sees any.
/// Error(kTooLittle) if kCuda finds none; with both, if some ranks have a GPU and others have not, if two
/// ranks would share one, or if they are of different kinds.
[[nodiscard]] DeviceChoice choose_devices(DeviceKind wanted, std::span<const DeviceClaim> claims,
                                          std::span<const int> nodes);

/// Whether the job asks for GPUs and uses them (uses_gpus() of its kind): for commands that cannot ask the
/// ranks what `auto` will find.
[[nodiscard]] bool wants_gpus(const JobConfig& config);
/// Kind of memory that such a job computes in.
[[nodiscard]] inline MemoryKind planned_memory(const JobConfig& config) {
  return wants_gpus(config) ? MemoryKind::kDevice : MemoryKind::kPrivate;
}

/// Error(kBadConfig) if device.kind asks for a device that this build does not support.
void require_device_in_build(const DeviceSettings& settings);

/// Collective over `comm`. The claims of all ranks, the same on every rank. Only the list of GPUs is asked of
/// CUDA.
[[nodiscard]] std::vector<DeviceClaim> exchange_claims(Communicator& comm, std::span<const int> nodes);

/// Collective over `comm`; throws alike on every rank. Makes the GPU that this rank has claimed the current
/// one.
void use_claimed_gpu(Communicator& comm, const DeviceClaim& claim);

/// Collective over `comm`, which must outlive the result and whose deadlines hold for it. A communicator for
/// the memory of the GPUs that use_claimed_gpu() made current: NCCL's, or in a build without it `comm`'s
/// through main memory. NCCL's has carried a first message from each to each: what it sets up with its first
/// operation belongs to the memory a rank has before it loads, and links that do not work are found before
/// anything is read. Error(kInternal) if one does not.
[[nodiscard]] std::unique_ptr<Communicator> connect_gpus(Communicator& comm);

/// Text of a choice: "3 of NVIDIA GB10, one a rank", "CPU", "CPU, as no CUDA-capable device is detected".
[[nodiscard]] std::string device_text(const DeviceChoice& choice);

}  // namespace sluice
