// The ranks' GPUs, connected before anything depends on it.
#pragma once

#include "comm/communicator.hpp"

#include <memory>

namespace sluice {

/// Collective over `comm`, which must outlive the result. A communicator over the GPUs that choose_devices() made current, which
/// has carried a first message from each to each: what NCCL sets up with its first operation belongs to the memory a rank has
/// before it loads, and links that do not work are found before anything is read. Error(kInternal) if one does not.
[[nodiscard]] std::unique_ptr<Communicator> connect_gpus(Communicator& comm, double limit_seconds);

}  // namespace sluice
