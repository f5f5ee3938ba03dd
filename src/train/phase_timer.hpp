// Where a step's time goes.
#pragma once

#include "base/clock.hpp"

#include <array>
#include <cstdint>
#include <string_view>

namespace sluice {

/// Phases of a step; they add up to the step. Names are those of /train/phase_seconds.
enum class Phase : std::uint8_t { kGather, kForward, kBackward, kReduce, kOptimizer, kOther };
inline constexpr std::array<std::string_view, 6> kPhaseNames{"gather", "forward",   "backward",
                                                             "reduce", "optimizer", "other"};
using PhaseSeconds = std::array<double, kPhaseNames.size()>;

/// Counts time for one phase at a time; kOther when nothing else was entered.
class PhaseTimer {
 public:
  /// Restores the phase before it when it goes out of scope.
  class Scope {
   public:
    Scope(PhaseTimer& timer, Phase phase) : timer_(timer), before_(timer.current_) {
      timer_.change_to(phase);
    }
    ~Scope() { timer_.change_to(before_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    PhaseTimer& timer_;
    Phase before_;
  };

  /// Seconds of each phase since the last call, and starts anew.
  [[nodiscard]] PhaseSeconds take();

 private:
  void change_to(Phase phase);
  Phase current_ = Phase::kOther;
  SteadyClock::time_point since_ = SteadyClock::now();
  PhaseSeconds seconds_{};
};

}  // namespace sluice
