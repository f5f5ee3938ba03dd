// Brings saved state back into the memory of ranks, however they divide the model now.
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

/// Bytes of one saved file for one place in a rank's memory.
struct RestoreCopy {
  int file = 0;  ///< index into SavedStep::files
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  std::byte* to = nullptr;
};

/// Copies that a rank makes, file by file and front to back, so that it meets each block once.
/// Error(kBadData) naming the tensor and the numbers that the checkpoint does not hold, holds twice, or holds
/// in another type.
[[nodiscard]] std::vector<RestoreCopy> plan_restore(const SavedStep& step,
                                                    const std::filesystem::path& directory,
                                                    const ParameterManifest& manifest,
                                                    std::span<const StateSpan> state);

struct RestoreReport {
  std::int64_t bytes = 0;          ///< bytes of state that this rank has taken over
  std::int64_t fetched_bytes = 0;  ///< bytes of whole blocks that other ranks read for this one
  double seconds = 0;
};

/// Collective over `comm`. Every rank reads from `directory` what `state` needs of it, and no more than the
/// blocks around it, each proven by its digest. Holds four blocks of kSavedBlockBytes and the table of what
/// is read. If one rank fails, or its disk gives no block for `limit_seconds`, every rank throws its error,
/// and `state` holds part of what was there.
RestoreReport restore_step(Communicator& comm, const SavedStep& step, const std::filesystem::path& directory,
                           const ParameterManifest& manifest, std::span<const StateSpan> state,
                           double limit_seconds = 600);
/// Restores a checkpoint whose files `readers` read: what another rank reads for this one comes through
/// `comm`, block by block. Holds two blocks more where there is any.
RestoreReport restore_step(Communicator& comm, const SavedStep& step, const std::filesystem::path& directory,
                           const StepReaders& readers, const ParameterManifest& manifest,
                           std::span<const StateSpan> state, double limit_seconds = 600);

}  // namespace sluice
