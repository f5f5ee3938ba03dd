#include "load/checkpoint_load.hpp"

#include "base/error.hpp"
#include "base/memory/memory.hpp"
#include "comm/run_together.hpp"
#include "load/buffer_load.hpp"
#include "weights/copy_agreement.hpp"
#include "weights/stored_forms.hpp"
#include "weights/tied_copies.hpp"

#include <string>
#include <utility>
#include <vector>

namespace sluice {
namespace {

PlannedLoad make_plan(MatchedCheckpoint source, const LoadRequest& request) {
  LoadPlan plan(source.index, source.match, request.shards, request.options);
  return {request.keys.manifest(), std::move(source.index), std::move(source.match), std::move(plan)};
}

PlannedLoad match_and_plan(CheckpointIndex index, const LoadRequest& request) {
  CheckpointMatch match = match_checkpoint(index, request.keys, request.options.arena);
  if (request.options.stores_plain_experts) encode_plain_experts(index, match, request.keys.manifest());
  return make_plan({std::move(index), std::move(match)}, request);
}

/// Every rank has made the plan by itself; ranks with different plans would send bytes to the wrong place.
void agree_on_plan(Communicator& comm, const LoadPlan& plan) {
  const std::vector<std::string> digests = comm.all_gather_text(plan.digest().hex());
  for (int rank = 0; rank < comm.size(); ++rank)
    SLUICE_ASSERT(digests[static_cast<std::size_t>(rank)] == digests.front(),
                  "rank {} made another load plan than rank 0", rank);
}

/// Collective over `comm`. Checks a plan that every process has made: that its moves cover this rank's arena, or in a
/// world of one those of all ranks planned for, and that plans and files agree.
void agree_on_load(Communicator& comm, const PlannedLoad& planned, const LoadRequest& request) {
  if (comm.size() == 1)
    planned.plan.check_coverage();
  else
    planned.plan.check_coverage(request.shards.dims().member(comm.rank()));
  agree_on_plan(comm, planned.plan);
  std::vector<int> readers = planned.plan.readers().readers();
  std::erase_if(readers,
                [&](int rank) { return rank >= comm.size(); });  // ranks of a job that is only planned
  agree_on_source(comm, planned.index, request.directory, readers);
  give_back_free_heap();  // frees the headers of the files, which are megabytes of JSON for many tensors
}

}  // namespace

PlannedLoad plan_load(Communicator& comm, const LoadRequest& request) {
  PlannedLoad planned = match_and_plan(share_checkpoint_index(comm, request.directory), request);
  run_on_root(comm, [&] { require_tied_copies(planned.index, request.keys, request.directory); });
  agree_on_load(comm, planned, request);
  return planned;
}

PlannedLoad plan_load(Communicator& comm, const LoadRequest& request, MatchedCheckpoint source) {
  PlannedLoad planned = make_plan(std::move(source), request);
  agree_on_load(comm, planned, request);
  return planned;
}

CheckpointLoadReport load_checkpoint(const RankSets& sets, const PlannedLoad& planned,
                                     const std::filesystem::path& directory, ShardArena* weights,
                                     const CheckpointLoadOptions& options) {
  CheckpointLoadReport report{load_shards(sets, planned.plan, directory, weights, options.load),
                              std::nullopt};
  Communicator& with_reader = planned.plan.passes_on() ? sets.all() : sets.own();
  if (weights != nullptr) load_buffers(with_reader, planned.index, planned.match, directory, *weights);
  if (options.loaded) options.loaded(report.load);
  if (!options.verify) return report;
  SLUICE_ASSERT(weights != nullptr, "a load that discards all bytes cannot be verified");
  VerifyOptions verify = *options.verify;
  verify.readers = planned.plan.readers().readers();
  verify.passes_on = planned.plan.passes_on();
  report.verify =
      verify_shards(sets, *weights, planned.manifest, planned.index, planned.match, directory, verify);
  return report;
}

}  // namespace sluice
