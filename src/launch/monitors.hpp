// The launch's eyes and hands on its hosts: `sluice host-monitor` on each, started through the agent, ends what
// an earlier launch of the run has left, answers each second for as long as it hears from the launch, and ends
// all of the launch's processes when asked, or when it hears no more.
//
// What they say to each other are lines. The launch: a MonitorOrder as JSON; then "." each second; "end" at
// last. The monitor: a MonitorAnswer as JSON; then, unless it refuses, the number of the launch's ranks there,
// each second. Its end says that no process of the launch is left.
#pragma once

#include "base/clock.hpp"
#include "comm/outcome.hpp"
#include "launch/host_command.hpp"
#include "launch/host_list.hpp"
#include "launch/job_end.hpp"

#include <nlohmann/json.hpp>

#include <list>
#include <map>
#include <string>
#include <vector>

namespace sluice {

/// First message to a monitor.
struct MonitorOrder {
  std::string run;     ///< beginning of the ids of all launches of this run
  std::string launch;  ///< id of this launch
  /// Seconds of silence of the launch after which the monitor ends its processes.
  double silence_seconds = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(MonitorOrder, run, launch, silence_seconds)

/// First message of a monitor, which is ready then, or refuses.
struct MonitorAnswer {
  std::string host{};  ///< name of the host, as its ranks give it
  /// Interface addresses of the host, see interface_addresses() (launch/host_network.hpp).
  std::vector<std::string> addresses{};
  int ended = 0;          ///< number of processes of earlier launches of the run that were ended
  std::string refused{};  ///< reason why the launch must not begin, or ""
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(MonitorAnswer, host, addresses, ended, refused)

/// Seconds between two messages of either side.
inline constexpr double kBeatSeconds = 1;

/// Host's side, on stdin and stdout; returns the exit status of `sluice host-monitor`.
[[nodiscard]] int monitor_host();

/// Launch's side of one host. The destructor ends the child, and with it, at the latest, the processes in the
/// monitor's care.
class HostMonitor {
 public:
  /// Starts the monitor: directly on this machine, elsewhere through `agent`.
  HostMonitor(LaunchHost host, const std::vector<std::string>& agent, const MonitorOrder& order);

  /// Reads available messages. Never blocks.
  void read();
  /// Writes a line to the monitor; a monitor that has ended, or does not read, is ignored.
  void say(const std::string& word);

  [[nodiscard]] const LaunchHost& host() const { return host_; }
  /// Answer of the monitor; empty before it has come.
  [[nodiscard]] const MonitorAnswer& answer() const { return answer_; }
  /// Descriptor that becomes readable when the monitor writes; -1 when its connection has ended.
  [[nodiscard]] int descriptor() const { return command_.output(); }
  [[nodiscard]] bool is_ready() const { return is_ready_; }
  /// Number of ranks of the launch on the host, as far as known.
  [[nodiscard]] int ranks() const { return ranks_; }
  /// Whether the monitor has written recently, and its connection stands.
  [[nodiscard]] bool answers() const;
  [[nodiscard]] double silent_seconds() const { return since_word_.seconds(); }
  /// Reason why the monitor is not ready: its refusal, or that this program cannot be run there (kBadConfig),
  /// or the agent's message, or that it does not answer (kInternal), with what to do.
  [[nodiscard]] Outcome why_not_ready();

 private:
  void take_line(const std::string& line);

  LaunchHost host_;
  HostCommand command_;
  MonitorAnswer answer_;
  Stopwatch since_word_;
  int ranks_ = 0;
  bool is_ready_ = false;
};

/// Waits until one of the descriptors is readable, or for a short time; negative ones are ignored.
void await_readable(const std::vector<int>& descriptors);

/// Monitors of all hosts of a launch.
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
