#include "job/launch/restarts.hpp"

#include "checkpoint/step_directory.hpp"
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

/// The number of the newest saved step; 0 without one.
std::int64_t newest_saved(const RestartPolicy& policy) {
  if (policy.steps.empty()) return 0;
  const std::vector<StepPlace> steps = list_steps(policy.steps);
  return steps.empty() ? 0 : steps.back().step;
}

/// Runs the job again; that too few hosts answer may pass, too.
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

int run_with_restarts(const HostsLaunch& launch, const RestartPolicy& policy) {
  std::int64_t saved = newest_saved(policy);
  LaunchEnd end = run_on_hosts(launch);
  for (int in_a_row = 1; end.may_start_again && policy.most > 0; ++in_a_row) {
    const std::int64_t newest = newest_saved(policy);
    if (newest > saved) in_a_row = 1;
    saved = std::max(saved, newest);
    if (in_a_row > policy.most) {
      console::report(
          fmt::format("sluice: {} restarts in a row have saved no step after step {}, so this is the end",
                      policy.most, saved));
      break;
    }
    const double delay = restart_delay(in_a_row);
    console::line("restart   {} of {} without a new saved step, in {:.0f} s, from {}; Ctrl-C ends it",
                  in_a_row, policy.most, delay,
                  newest == 0 ? "the beginning" : fmt::format("step {}", newest));
    std::this_thread::sleep_for(std::chrono::duration<double>(delay));
    end = run_again(launch);
  }
  return end.code;
}

}  // namespace sluice
