#include "job/saving/step_table.hpp"

#include "base/bytes.hpp"
#include "checkpoint/step_source.hpp"

namespace sluice {

StepTable step_table(const std::vector<StepPlace>& steps) {
  StepTable table;
  const HeldOutStep best = best_step(steps);
  for (const StepPlace& place : steps) {
    const std::string number = fmt::format("{}", place.step);
    try {
      const SavedStep step = read_saved_step(place.path);
      const bool is_best = best.step > 0 && best.step == place.step;
      table.rows.push_back({number, step.saved, fmt::format("{}", step.world_size),
                            format_bytes(step.bytes()),
                            is_best ? fmt::format("whole; the best, held out {:.5f}", best.loss) : "whole"});
    } catch (const Error& error) {
      table.code = error.code();
      table.rows.push_back({number, "-", "-", "-", error.what()});
    }
  }
  return table;
}

}  // namespace sluice
