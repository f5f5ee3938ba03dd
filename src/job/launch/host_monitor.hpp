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
  std::string run;             ///< begins the ids of all launches of this run
  std::string launch;          ///< the id of this launch
  double silence_seconds = 0;  ///< silence of the launch after which the monitor ends its processes
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(MonitorOrder, run, launch, silence_seconds)

/// How often both sides speak.
inline constexpr double kBeatSeconds = 1;

/// The host's side, on stdin and stdout; returns the exit status of `sluice host-monitor`.
[[nodiscard]] int monitor_host();

/// The launch's side. Ends its child when it is destroyed, and with it, at the latest, what the monitor looks
/// after.
class HostMonitor {
 public:
  /// Starts it: on this machine by itself, elsewhere through `agent`.
  HostMonitor(LaunchHost host, const std::vector<std::string>& agent, const MonitorOrder& order);

  /// Reads what has come. Never blocks.
  void read();
  /// Says that the launch is there.
  void beat() { say("."); }
  void end_processes() { say("end"); }

  [[nodiscard]] const LaunchHost& host() const { return host_; }
  /// The host's own name, as its ranks give it; "" before it is ready.
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Its interface_addresses() (job/launch/host_network.hpp).
  [[nodiscard]] const std::vector<std::string>& addresses() const { return addresses_; }
  /// Descriptor that becomes readable when the monitor speaks; -1 when its connection has ended.
  [[nodiscard]] int descriptor() const { return command_.output(); }
  [[nodiscard]] bool is_ready() const { return is_ready_; }
  /// Whether it has said that the launch may not begin.
  [[nodiscard]] bool refuses() const { return !refusal_.empty(); }
  /// How many processes of earlier launches of the run were ended before this one began.
  [[nodiscard]] int fenced() const { return fenced_; }
  /// Ranks of the launch that run there, as far as is known.
  [[nodiscard]] int ranks() const { return ranks_; }
  /// Whether it has spoken lately, and its connection stands.
  [[nodiscard]] bool answers() const;
  [[nodiscard]] double silent_seconds() const { return since_word_.seconds(); }
  /// Why it is not ready: its refusal or that this program cannot be run there (kBadConfig), what the agent
  /// has said, or that it does not answer (kInternal), with what to do.
  [[nodiscard]] Outcome why_not_ready();

 private:
  void say(const char* word);
  void take_line(const std::string& line);

  LaunchHost host_;
  HostCommand command_;
  std::string text_;  ///< read, and no whole line yet
  std::string name_;
  std::vector<std::string> addresses_;
  std::string refusal_;
  Stopwatch since_word_;
  int fenced_ = 0;
  int ranks_ = 0;
  bool is_ready_ = false;
};

}  // namespace sluice
