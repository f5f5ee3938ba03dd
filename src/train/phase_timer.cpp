#include "train/phase_timer.hpp"

#include "base/trace/recorder.hpp"

#include <utility>

namespace sluice {

void PhaseTimer::change_to(Phase phase) {
  const SteadyClock::time_point now = SteadyClock::now();
  if (trace::is_on()) [[unlikely]]
    trace::add(trace::Kind::kPhase, kPhaseNames[static_cast<std::size_t>(current_)], since_, now);
  seconds_[static_cast<std::size_t>(current_)] += Seconds(now - since_).count();
  since_ = now;
  current_ = phase;
}

PhaseSeconds PhaseTimer::take() {
  change_to(current_);
  return std::exchange(seconds_, {});
}

}  // namespace sluice
