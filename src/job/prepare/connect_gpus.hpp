// Connects the ranks' GPUs before anything depends on them.
#pragma once

#include "comm/communicator.hpp"

#include <memory>

namespace sluice {

/// Collective over `comm`, which must outlive the result and whose deadlines hold for it. A communicator for
/// the memory of the GPUs that use_claimed_gpu() made current: NCCL's, or in a build without it `comm`'s
/// through main memory. NCCL's has carried a first message from each to each: what it sets up with its first
/// operation belongs to the memory a rank has before it loads, and links that do not work are found before
/// anything is read. Error(kInternal) if one does not.
[[nodiscard]] std::unique_ptr<Communicator> connect_gpus(Communicator& comm);

}  // namespace sluice
