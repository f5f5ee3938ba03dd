// Restores saved state into the memory of ranks, for any division of the model among them.
#pragma once

#include "checkpoint/hosts/fetched_blocks.hpp"
#include "checkpoint/saved_step.hpp"
#include "checkpoint/state_spans.hpp"
#include "comm/communicator.hpp"
#include "manifest/manifest.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

namespace sluice {

/// Copy of bytes of one saved file to a place in a rank's memory.
struct RestoreCopy {
  int file = 0;  ///< index into SavedStep::files
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  std::byte* to = nullptr;
};

/// Plans the copies of a rank, file by file and front to back, so that each block is read once.
/// Error(kBadData) with the tensor and the numbers that the checkpoint does not hold, holds twice, or holds
/// in another type.
[[nodiscard]] std::vector<RestoreCopy> plan_restore(const SavedStep& step,
                                                    const std::filesystem::path& directory,
                                                    const ParameterManifest& manifest,
                                                    std::span<const StateSpan> state);

struct RestoreReport {
  std::int64_t bytes = 0;          ///< bytes of state that this rank has restored
  std::int64_t fetched_bytes = 0;  ///< bytes of whole blocks that other ranks read for this one
  double seconds = 0;
};

/// Collective over `comm`. Every rank reads from `directory` what `state` needs, and only the blocks around
/// it, each verified by its digest. Holds four blocks of kSavedBlockBytes and a table of the reads. If one
/// rank fails, or its disk delivers no block for `limit_seconds`, every rank throws its error, and `state` is
/// partly overwritten.
RestoreReport restore_step(Communicator& comm, const SavedStep& step, const std::filesystem::path& directory,
                           const ParameterManifest& manifest, std::span<const StateSpan> state,
                           double limit_seconds = 600);
/// Collective over `comm`. Restores a checkpoint whose files `readers` read: what another rank reads for this
/// one is sent through `comm`, block by block. Holds two blocks more if there is any.
RestoreReport restore_step(Communicator& comm, const SavedStep& step, const std::filesystem::path& directory,
                           const StepReaders& readers, const ParameterManifest& manifest,
                           std::span<const StateSpan> state, double limit_seconds = 600);

}  // namespace sluice
