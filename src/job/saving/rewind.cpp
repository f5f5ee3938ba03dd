#include "job/saving/rewind.hpp"

#include "base/bytes.hpp"
#include "checkpoint/hosts/held_steps.hpp"
#include "job/console.hpp"
#include "job/saving/restore_held.hpp"

#include <filesystem>

namespace sluice {

void rewind_to(JobContext& context, std::int64_t step, std::span<const StateSpan> state) {
  context.comm.set_deadline("rewind", context.config().deadline.save_seconds);
  const std::filesystem::path directory = checkpoint_directory(context.config());
  const HeldSteps steps(context.comm, RankDisks(context.nodes), directory);
  const RestoreReport report = restore_held(context, steps.read({step, directory / step_name(step)}), state);
  if (context.is_root())
    console::line("rewound   to the weights of step {}: {} on rank 0 in {:.2f} s", step,
                  format_bytes(report.bytes), report.seconds);
}

}  // namespace sluice
