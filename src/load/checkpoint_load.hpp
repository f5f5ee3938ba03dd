// The load of a checkpoint as a whole, from a directory into the arenas: examine, match, plan, agree, run,
// verify.
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

/// Request of a load: its files, and the shards that they go to. The references must outlive the request and
/// the plans made from it.
struct LoadRequest {
  std::filesystem::path directory;  ///< Hugging Face directory of the checkpoint
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

/// A checkpoint that needs no matching: it says which parts of which files are which ranges of tensors.
struct MatchedCheckpoint {
  CheckpointIndex index;
  CheckpointMatch match;
};

/// Collective over `comm`. Plans a load from headers that rank 0 reads, and proves that every rank planned for gets
/// each element that it owns exactly once: each rank of a job proves what it gets itself, and a command, which is a
/// world of one, proves all. The plan is the same on every process. Error(kBadData) or Error(kIo) as
/// read_checkpoint_index(), match_checkpoint() and require_tied_copies(); Error(kInternal) if the plans differ or if
/// readers have different files.
[[nodiscard]] PlannedLoad plan_load(Communicator& comm, const LoadRequest& request);

/// Collective over `comm`. Plans the load of a checkpoint that is matched already; `source` is the same on
/// every process.
[[nodiscard]] PlannedLoad plan_load(Communicator& comm, const LoadRequest& request, MatchedCheckpoint source);

struct CheckpointLoadOptions {
  LoadOptions load{};
  /// Whether and how the plan's readers read the files once more and compare them with the arenas.
  std::optional<VerifyOptions> verify{};
  /// Called on every rank when all elements have arrived, before they are verified; may be empty.
  std::function<void(const LoadReport&)> loaded{};
};

struct CheckpointLoadReport {
  LoadReport load;
  std::optional<VerifyReport> verify;
};

/// Collective over all ranks of `sets`. Fills `weights`, persistent buffers included, as `planned` says, and
/// verifies them if requested; `weights` is null for a plan that discards. Errors and memory as load_shards() and
/// verify_shards().
CheckpointLoadReport load_checkpoint(const RankSets& sets, const PlannedLoad& planned,
                                     const std::filesystem::path& directory, ShardArena* weights,
                                     const CheckpointLoadOptions& options);

}  // namespace sluice
