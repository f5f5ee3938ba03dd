// A communicator of the stand-in for NCCL.
#pragma once

#include "channels.hpp"

#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>

struct ncclComm {
  ncclComm(std::string id, int ranks, int own) : name(std::move(id)), size(ranks), rank(own) {}

  /// Returns once all ranks have come, or once it is aborted.
  void connect();
  [[nodiscard]] ncclResult_t state() const;

  std::string name;
  int size, rank;
  std::unique_ptr<sluice::stand_in::Channels> channels;
  std::atomic<ncclResult_t> error{ncclSuccess};
  std::atomic<bool> is_ready{false}, is_aborted{false}, is_finalized{false}, hangs_at_the_end{false};
  std::atomic<std::uint64_t> given{0}, served{0};  ///< groups
  std::atomic<int> waiting{0};                     ///< groups that have not ended
  std::thread connecting;
};

namespace sluice::stand_in {

/// Between two looks at what another thread does.
void nap();

}  // namespace sluice::stand_in
