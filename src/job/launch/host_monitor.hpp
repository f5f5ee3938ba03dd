// The launch's eyes and hand on a host: `sluice host-monitor` there, started through the agent, ends what an
// earlier launch of the run has left, answers each second for as long as it hears from the launch, and ends
// all of the launch's processes when asked, or when it hears no more.
//
// What they say to each other are lines. The launch: a MonitorOrder as JSON; then "." each second; "end" at
// last. The monitor: {"host", "addresses", "ended"} once it is ready, or {"refused"}; then the number of the
// launch's ranks there, each second. Its end says that no process of the launch is left.
#pragma once

#include "base/clock.hpp"
#include "comm/outcome.hpp"
#include "job/launch/host_command.hpp"
#include "job/launch/host_list.hpp"

#include <nlohmann/json.hpp>

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

/// Seconds between two messages of either side.
inline constexpr double kBeatSeconds = 1;

/// Host's side, on stdin and stdout; returns the exit status of `sluice host-monitor`.
[[nodiscard]] int monitor_host();

/// Launch's side. The destructor ends the child, and with it, at the latest, the processes in the monitor's
/// care.
class HostMonitor {
 public:
  /// Starts the monitor: directly on this machine, elsewhere through `agent`.
  HostMonitor(LaunchHost host, const std::vector<std::string>& agent, const MonitorOrder& order);

  /// Reads available messages. Never blocks.
  void read();
  /// Tells the monitor that the launch is alive.
  void beat() { say("."); }
  void end_processes() { say("end"); }

  [[nodiscard]] const LaunchHost& host() const { return host_; }
  /// Name of the host, as its ranks give it; "" before it is ready.
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Interface addresses of the host, see interface_addresses() (job/launch/host_network.hpp).
  [[nodiscard]] const std::vector<std::string>& addresses() const { return addresses_; }
  /// Descriptor that becomes readable when the monitor writes; -1 when its connection has ended.
  [[nodiscard]] int descriptor() const { return command_.output(); }
  [[nodiscard]] bool is_ready() const { return is_ready_; }
  /// Whether the monitor has said that the launch must not begin.
  [[nodiscard]] bool refuses() const { return !refusal_.empty(); }
  /// Number of processes of earlier launches of the run that were ended before this one began.
  [[nodiscard]] int fenced() const { return fenced_; }
  /// Number of ranks of the launch on the host, as far as known.
  [[nodiscard]] int ranks() const { return ranks_; }
  /// Whether the monitor has written recently, and its connection stands.
  [[nodiscard]] bool answers() const;
  [[nodiscard]] double silent_seconds() const { return since_word_.seconds(); }
  /// Reason why the monitor is not ready: its refusal, or that this program cannot be run there (kBadConfig),
  /// or the agent's message, or that it does not answer (kInternal), with what to do.
  [[nodiscard]] Outcome why_not_ready();

 private:
  void say(const char* word);
  void take_line(const std::string& line);

  LaunchHost host_;
  HostCommand command_;
  std::string text_;  ///< bytes that were read, without a complete line yet
  std::string name_;
  std::vector<std::string> addresses_;
  std::string refusal_;
  Stopwatch since_word_;
  int fenced_ = 0;
  int ranks_ = 0;
  bool is_ready_ = false;
};

}  // namespace sluice
