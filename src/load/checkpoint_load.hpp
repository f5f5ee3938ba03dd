// The way in as a whole, from a directory to arenas that hold what its files hold: examine, match, plan,
// agree, run, verify.
#pragma once

#include "comm/communicator.hpp"
#include "load/load_plan.hpp"
#include "load/streaming_loader.hpp"
#include "manifest/key_map.hpp"
#include "verify/verify_shards.hpp"
#include "weights/checkpoint_index.hpp"
#include "weights/checkpoint_match.hpp"

#include <filesystem>
#include <functional>
#include <optional>

namespace sluice {

/// A load: its files, and the shards that they go to. The references must outlive it and the plans made from
/// it.
struct LoadRequest {
  std::filesystem::path directory;  ///< Hugging Face directory
  const KeyMap& keys;
  const ShardPlan& shards;
  LoadPlanOptions options;
};

/// A planned load: what the files hold, which tensor each part of it belongs to, and how it gets to the
/// shards.
struct PlannedLoad {
  const ParameterManifest& manifest;
  CheckpointIndex index;
  CheckpointMatch match;
  LoadPlan plan;
};

/// A source of weights that needs no matching: which parts of which files are which ranges of tensors.
struct MatchedCheckpoint {
  CheckpointIndex index;
  CheckpointMatch match;
};

/// The plan of a load, in this process alone, from the headers of the files; proves that every rank gets all
/// that it owns, once. Error(kBadData) or Error(kIo) as read_checkpoint_index(), match_checkpoint() and
/// require_tied_copies().
[[nodiscard]] PlannedLoad plan_load(const LoadRequest& request);

/// Collective over `comm`. The same, from headers that rank 0 reads, the same on every rank: each proves what
/// it gets itself. Error(kInternal) too if the plans differ, or if readers have different files.
[[nodiscard]] PlannedLoad plan_load(Communicator& comm, const LoadRequest& request);

/// Plans the load of a source that is matched already. Collective; `source` is the same on every rank.
[[nodiscard]] PlannedLoad plan_load(const LoadRequest& request, MatchedCheckpoint source);
[[nodiscard]] PlannedLoad plan_load(Communicator& comm, const LoadRequest& request, MatchedCheckpoint source);

struct CheckpointLoadOptions {
  LoadOptions load{};
  std::optional<VerifyOptions> verify{};  ///< reads the files once more and compares; by the plan's readers
  /// Called on every rank when all has arrived, before it is verified; may be empty.
  std::function<void(const LoadReport&)> loaded{};
};

struct CheckpointLoadReport {
  LoadReport load;
  std::optional<VerifyReport> verify;
};

/// Collective over `comm`. Fills `weights`, persistent buffers included, as `planned` says, and verifies it
/// if that is asked for; null with a plan that discards. Errors and memory as load_shards() and
/// verify_shards().
CheckpointLoadReport load_checkpoint(Communicator& comm, const PlannedLoad& planned,
                                     const std::filesystem::path& directory, ShardArena* weights,
                                     const CheckpointLoadOptions& options);

}  // namespace sluice
