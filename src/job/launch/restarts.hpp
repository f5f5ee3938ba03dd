// Runs a job on several hosts, and starts it again when a rank, a host or a link is lost.
#pragma once

#include "job/launch/hosts_launch.hpp"

namespace sluice {

/// Seconds between the end of an attempt and restart number `restart`, from 1 on, of a row without a new
/// checkpoint: doubled each time, at most a minute.
[[nodiscard]] double restart_delay(int restart);

/// run_on_hosts(), again and again where that may help; hosts that do not answer are left out each time, as
/// far as launch.least_slots allows; at most `most_restarts` times in a row without a step that the ranks say
/// to have saved. Between two attempts a signal ends this process as by default. Returns the exit status of
/// the last attempt. Errors of run_on_hosts() at the first start.
[[nodiscard]] int run_with_restarts(const HostsLaunch& launch, int most_restarts);

}  // namespace sluice
