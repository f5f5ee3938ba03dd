#include "comm/long_work.hpp"

#include "base/clock.hpp"
#include "comm/outcome.hpp"
#include "comm/run_together.hpp"

namespace sluice {

void run_long_on_root(Communicator& comm,
                      const std::function<void(const std::function<void()>& tell)>& step) {
  constexpr double kBetweenSeconds = 1;
  constexpr const char* kGoesOn = "goes on";
  Outcome outcome;
  if (comm.rank() == 0) {
    Stopwatch since;
    const auto tell = [&] {
      if (since.seconds() < kBetweenSeconds) return;
      since.restart();
      static_cast<void>(comm.broadcast_text(kGoesOn, 0));
    };
    outcome = outcome_of([&] { step(tell); });
    static_cast<void>(comm.broadcast_text("", 0));
  } else {
    while (!comm.broadcast_text("", 0).empty()) {
    }
  }
  run_on_root(comm, [&] { outcome.throw_if_failed(); });
}

}  // namespace sluice
