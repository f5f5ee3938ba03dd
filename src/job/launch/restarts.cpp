#include "job/launch/restarts.hpp"

#include "comm/outcome.hpp"
#include "job/console.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <thread>

namespace sluice {
namespace {

/// Runs the job again; even too few hosts that answer may be temporary.
LaunchEnd run_again(const HostsLaunch& launch) {
  LaunchEnd end;
  const Outcome failure = outcome_of([&] { end = run_on_hosts(launch); });
  if (!failure.failed()) return end;
  console::report("sluice: " + failure.text);
  return {static_cast<int>(failure.code), failure.code == ExitCode::kInternal};
}

}  // namespace

double restart_delay(int restart) {
  constexpr double kFirst = 2, kMost = 60;
  return std::min(kMost, std::ldexp(kFirst, std::min(restart, 16) - 1));
}

int run_with_restarts(const HostsLaunch& launch, int most_restarts) {
  std::int64_t saved = 0;
  LaunchEnd end = run_on_hosts(launch);
  for (int in_a_row = 1; end.may_start_again && most_restarts > 0; ++in_a_row) {
    if (end.saved_step > saved) in_a_row = 1;
    saved = std::max(saved, end.saved_step);
    if (in_a_row > most_restarts) {
      console::report(fmt::format("sluice: {} restarts in a row have saved no step{}, so this is the end",
                                  most_restarts, saved == 0 ? "" : fmt::format(" after step {}", saved)));
      break;
    }
    const double delay = restart_delay(in_a_row);
    console::line("restart   {} of {} without a new saved step, in {:.0f} s, from {}; Ctrl-C ends it",
                  in_a_row, most_restarts, delay,
                  saved == 0 ? "what is saved" : fmt::format("step {}", saved));
    std::this_thread::sleep_for(std::chrono::duration<double>(delay));
    end = run_again(launch);
  }
  return end.code;
}

}  // namespace sluice
