#include "train/guard/step_guard.hpp"

#include "base/error.hpp"

#include <cstddef>
#include <limits>

namespace sluice {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

StepGuard::StepGuard(const GuardSettings& settings)
    : settings_(settings), losses_(static_cast<std::size_t>(settings.spike_window)) {}

double StepGuard::spike_limit() const {
  return losses_.is_full() ? settings_.spike_factor * losses_.value() : kNoLimit;
}

double StepGuard::largest_loss() const {
  return settings_.on_spike == OnSpike::kWarn ? kNoLimit : spike_limit();
}

void StepGuard::add_update(double loss) {
  losses_.add(loss);
  in_a_row_ = 0;
}

void StepGuard::add_left_out(std::int64_t step, const std::string& reason) {
  ++left_out_;
  if (++in_a_row_ <= settings_.max_skipped_steps) return;
  fail({ExitCode::kNumerics, "train.not_finite"},
       "step {}: {}. guard.max_skipped_steps = {}: so many updates in a row were skipped before "
       "this one, and skipping more will not help. Likely causes: too high a learning rate, or "
       "broken data",
       step, reason, settings_.max_skipped_steps);
}

}  // namespace sluice
