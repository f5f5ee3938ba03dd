// Monitors of all hosts of a launch.
#pragma once

#include "base/clock.hpp"
#include "job/launch/host_list.hpp"
#include "job/launch/host_monitor.hpp"
#include "job/launch/job_end.hpp"

#include <list>
#include <map>
#include <string>
#include <vector>

namespace sluice {

/// Waits until one of the descriptors is readable, or for a short time; negative ones are ignored.
void await_readable(const std::vector<int>& descriptors);

class Monitors {
 public:
  /// Starts the monitors, and waits until every host is ready: for 30 s, or for 10 s once the ready ones have
  /// `least_slots` slots together. Goes on without the others, which a line names, if those slots are there.
  /// Else Error(kInternal) if a host does not answer, Error(kBadConfig) if one refuses or cannot run this
  /// program.
  Monitors(const std::vector<LaunchHost>& hosts, const std::vector<std::string>& agent,
           const MonitorOrder& order, int least_slots);

  /// Reads available messages. Never blocks.
  void read();
  /// Tells the monitors, at most once a second, that the launch is alive.
  void beat();

  /// Hosts that were ready, in the order in which they were given.
  [[nodiscard]] std::vector<LaunchHost> hosts() const;
  /// Descriptors that become readable when a monitor writes; some may be -1.
  [[nodiscard]] std::vector<int> descriptors() const;
  /// Networks to which the hosts' names resolve; "" if that is not known.
  [[nodiscard]] std::string networks() const;
  /// Text of the hosts' addresses: "h1 10.0.0.1/24, h2 10.0.0.2/24 172.17.0.1/16".
  [[nodiscard]] std::string addresses_text() const;
  /// Number of ranks on the hosts that answer.
  [[nodiscard]] int ranks() const;
  /// Hosts that do not answer, with their ranks; `hosts` has the hosts of ranks that have named theirs.
  [[nodiscard]] std::vector<LostHost> lost(const std::map<int, std::string>& hosts) const;

  /// Ends all processes of the launch on hosts that answer; returns when that is done, or after some seconds.
  void end_processes();

 private:
  void await_answers(int least_slots);
  void require_ready(int least_slots);
  [[nodiscard]] int slots() const;

  std::list<HostMonitor> all_;
  Stopwatch since_beat_;
};

}  // namespace sluice
