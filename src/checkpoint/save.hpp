// Saves a step: every rank writes its own file, rank 0 the manifest, and the directory appears whole or not at all.
#pragma once

#include "checkpoint/saved_step.hpp"
#include "checkpoint/state_spans.hpp"
#include "comm/communicator.hpp"
#include "manifest/manifest.hpp"

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace sluice {

struct SaveRequest {
  std::filesystem::path directory;  ///< of all steps; every rank sees it
  const ParameterManifest& manifest;
  std::span<const StateSpan> state;                 ///< this rank's, as list_state() gives it
  SavedStep description;                            ///< of the step, its files apart; used on rank 0
  std::vector<std::filesystem::path> companions{};  ///< small files that go along; used on rank 0
  std::int64_t keep = 2;
  std::int64_t keep_every = 0;
  /// Steps that must not outlive this one, because they are of another course of training; used on rank 0.
  std::vector<std::filesystem::path> superseded{};
};

struct SaveReport {
  std::int64_t bytes = 0;  ///< of all files
  double seconds = 0;
};

/// Collective over `comm`. Writes the step and then removes those that need not be kept. If anything fails every rank throws
/// the same error: before the step was published nothing is left of it, and earlier steps are as they were. Each rank holds
/// one block of kDigestBlockBytes and its table of contents besides what it saves.
SaveReport save_step(Communicator& comm, const SaveRequest& request);

/// Bytes that saving takes on a rank besides what it saves.
inline constexpr std::int64_t kSaveStagingBytes = kDigestBlockBytes;

}  // namespace sluice
