#include "job/saving/rewind.hpp"

#include "base/bytes.hpp"
#include "checkpoint/restore.hpp"
#include "checkpoint/step_directory.hpp"
#include "comm/run_together.hpp"
#include "job/console.hpp"

#include <filesystem>
#include <string>

namespace sluice {

void rewind_to(JobContext& context, std::int64_t step, std::span<const StateSpan> state) {
  context.comm.set_deadline("rewind", context.config().deadline.save_seconds);
  const std::filesystem::path path = checkpoint_directory(context.config()) / step_name(step);
  const std::string manifest =
      share_from_root(context.comm, [&] { return to_manifest(read_saved_step(path)); });
  const RestoreReport report = restore_step(context.comm, parse_manifest(manifest, path.string()), path,
                                            context.blueprint.model.manifest, state);
  if (context.is_root())
    console::line("rewound   to the weights of step {}: {} on rank 0 in {:.2f} s", step,
                  format_bytes(report.bytes), report.seconds);
}

}  // namespace sluice
