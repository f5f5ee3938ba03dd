// The monitors of all hosts of a launch.
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

/// Waits until one of the descriptors is readable, or for a moment; negative ones are passed over.
void await_readable(const std::vector<int>& descriptors);

class Monitors {
 public:
  /// Starts them, and waits until every host is ready: for 30 s, or for 10 s once those that are ready have
  /// `least_slots` slots together. Goes on without the others, which a line names, if those slots are there.
  /// Else Error(kInternal) if a host does not answer, Error(kBadConfig) if one refuses or cannot run this
  /// program.
  Monitors(const std::vector<LaunchHost>& hosts, const std::vector<std::string>& agent,
           const MonitorOrder& order, int least_slots);

  /// Reads what has come. Never blocks.
  void read();
  /// Says, once a second at most, that the launch is there.
  void beat();

  /// The hosts that were ready, in the order in which they were given.
  [[nodiscard]] std::vector<LaunchHost> hosts() const;
  /// Descriptors that become readable when a monitor speaks, some of them -1.
  [[nodiscard]] std::vector<int> descriptors() const;
  /// Networks that the hosts' names resolve to; "" if that is not known.
  [[nodiscard]] std::string networks() const;
  /// "h1 10.0.0.1/24, h2 10.0.0.2/24 172.17.0.1/16"
  [[nodiscard]] std::string addresses_text() const;
  /// Ranks on the hosts that answer.
  [[nodiscard]] int ranks() const;
  /// The hosts that do not answer, with the ranks that ran there; `hosts` are those of the ranks that have
  /// named theirs.
  [[nodiscard]] std::vector<LostHost> lost(const std::map<int, std::string>& hosts) const;

  /// Ends all processes of the launch on the hosts that answer; returns when that is done, or after some
  /// seconds.
  void end_processes();

 private:
  void await_answers(int least_slots);
  void require_ready(int least_slots);
  [[nodiscard]] int slots() const;

  std::list<HostMonitor> all_;
  Stopwatch since_beat_;
};

}  // namespace sluice
