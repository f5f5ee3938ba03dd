// Timer for the phases of a train step, in seconds.
#pragma once

#include "base/clock.hpp"

#include <array>
#include <cstdint>

namespace sluice {

/// Phases of a step, whose times add up to the step. Names are those of /train/phase_seconds.
enum class Phase : std::uint8_t {
  kGather,
  kForward,
  kDispatch,
  kExperts,
  kCombine,
  kBackward,
  kReduce,
  kOptimizer,
  kDisk,  ///< waiting for shards that lie on a disk
  kOther
};
inline constexpr std::array<const char*, 10> kPhaseNames{"gather",    "forward",  "dispatch", "experts",
                                                         "combine",   "backward", "reduce",   "optimizer",
                                                         "disk_wait", "other"};
using PhaseSeconds = std::array<double, kPhaseNames.size()>;

/// Counts time for one phase at a time; kOther where no phase was entered.
class PhaseTimer {
 public:
  /// Enters a phase for the lifetime of the object, then returns to the phase before.
  class Scope {
   public:
    Scope(PhaseTimer& timer, Phase phase) : timer_(timer), before_(timer.enter(phase)) {}
    ~Scope() { timer_.change_to(before_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    PhaseTimer& timer_;
    Phase before_;
  };

  /// Counts the time from now on for `phase`; returns the phase until now.
  Phase enter(Phase phase) {
    const Phase before = current_;
    change_to(phase);
    return before;
  }

  /// Seconds of each phase since the last call; counting starts anew.
  [[nodiscard]] PhaseSeconds take();

 private:
  void change_to(Phase phase);
  Phase current_ = Phase::kOther;
  SteadyClock::time_point since_ = SteadyClock::now();
  PhaseSeconds seconds_{};
};

}  // namespace sluice
