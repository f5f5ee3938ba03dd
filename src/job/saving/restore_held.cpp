#include "job/saving/restore_held.hpp"

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "checkpoint/hosts/renew_copies.hpp"
#include "process/console.hpp"

#include <cstdint>

namespace sluice {

RestoreReport restore_held(JobContext& context, const HeldStep& held, std::span<const StateSpan> state) {
  const RestoreReport report =
      restore_step(context.comm, held.found.step, held.found.path,
                   StepReaders(held.holders, RankDisks(context.plan.machine.nodes)),
                   context.blueprint.model.manifest, state, context.config().deadline.save_seconds);
  std::int64_t fetched = report.fetched_bytes;
  context.comm.all_reduce_sum(std::span(&fetched, 1));
  if (fetched > 0 && context.is_root())
    console::line("fetched   {} of step {} from hosts that have them", format_bytes(fetched),
                  held.found.step.step);
  return report;
}

void renew_lost_copies(JobContext& context, const HeldStep& held, const SaveDisks& disks) {
  if (!disks.has_copies) return;
  const Stopwatch watch;
  const std::int64_t bytes =
      renew_copies(context.comm, held, disks.disks, context.config().deadline.save_seconds);
  if (bytes > 0 && context.is_root())
    console::line("copied    {} of step {} to hosts that lacked them, in {:.2f} s", format_bytes(bytes),
                  held.found.step.step, watch.seconds());
}

}  // namespace sluice
