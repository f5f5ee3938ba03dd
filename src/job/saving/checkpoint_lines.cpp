#include "job/saving/checkpoint_lines.hpp"

#include "base/log.hpp"
#include "base/text.hpp"
#include "job/plan/resume_point.hpp"
#include "job/prepare/save_plan.hpp"
#include "process/console.hpp"

#include <fmt/ranges.h>

#include <system_error>

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// Prints what each host will save, and which checkpoints the hosts have.
void print_disks(const JobContext& context, const SaveDisks& disks, const std::optional<FoundStep>& found) {
  console::line("          no file system is shared: {}",
                hosts_text(step_bytes_of_disks(context.plan.ranks, disks.disks, disks.partner_copies()),
                           disks.partner_copies()));
  console::line("          {} on {}",
                found ? fmt::format("step {} is whole", found->step.step) : "no step is saved",
                fmt::join(disks.hosts, ", "));
}

void print_changes(const JobConfig& config, const FoundStep& found) {
  console::line("resume    from step {}, saved {} by {}: {}", found.step.step, found.step.saved,
                counted(found.step.world_size, "rank"), found.path.string());
  for (const ChangedKey& change : changed_keys(found.step.job, config))
    console::line("          {} is {}, and was {}", change.key, change.now, change.before);
}

/// Names unfinished checkpoints that killed runs were writing or removing.
void name_leftovers(const fs::path& directory) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error))
    if (entry.path().filename().string().starts_with(".step-"))
      log::warning("{} is an incomplete checkpoint from an interrupted save; it is safe to delete",
                   entry.path().string());
}

}  // namespace

void print_checkpoint_plan(const JobContext& context, const CheckpointPlan& plan) {
  console::line("saves     {}", save_text(context.config(), context.plan.saves.step_bytes));
  if (plan.disks && !plan.disks->are_shared()) print_disks(context, *plan.disks, plan.found);
  if (plan.found) print_changes(context.config(), *plan.found);
  name_leftovers(plan.directory);
  if (!plan.found && plan.superseded_steps > 0)
    log::warning(
        "{} checkpoints of an earlier training in {} are not resumed; they go when this one saves its first "
        "step",
        plan.superseded_steps, plan.directory.string());
}

}  // namespace sluice
