#include "base/error.hpp"
#include "launch/host_network.hpp"
#include "launch/monitor_place.hpp"
#include "launch/monitors.hpp"
#include "process/host_name.hpp"
#include "process/input_lines.hpp"
#include "process/launch_mark.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

namespace sluice {
namespace {

using Json = nlohmann::json;

/// Writes a line to the launch; false if nobody reads it any more.
bool say(const std::string& word) {
  const std::string line = word + "\n";
  return ::write(STDOUT_FILENO, line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

/// Answers the launch until it asks for the end, has ended, or is silent for too long.
void watch(InputLines& lines, const MonitorPlace& place, const MonitorOrder& order) {
  Stopwatch since_word, since_beat;
  for (std::string line; lines.next(line) != InputLines::Found::kEnd && line != "end";) {
    if (!line.empty()) {
      since_word.restart();
      place.touch();
    }
    if (since_word.seconds() > order.silence_seconds) return;
    if (since_beat.seconds() < kBeatSeconds) continue;
    since_beat.restart();
    if (!say(fmt::format("{}", marked_processes(order.launch).ranks))) return;
  }
}

MonitorOrder read_order(InputLines& lines) {
  std::string line;
  while (line.empty() && lines.next(line) != InputLines::Found::kEnd) continue;
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) fail(ExitCode::kUsage, "host-monitor: only `sluice launch --hosts` starts it");
  return json.get<MonitorOrder>();
}

}  // namespace

int monitor_host() {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  InputLines lines;
  const MonitorOrder order = read_order(lines);
  MonitorPlace place;
  if (!place.take(order.run)) {
    const MonitorAnswer refusal{
        .refused =
            "another launch of this run works there; end it first, or give this one a job.output of its own"};
    say(Json(refusal).dump());
    return static_cast<int>(ExitCode::kBadConfig);
  }
  const int ended = end_marked_processes(order.run + "-");
  const MonitorAnswer ready{.host = host_name(), .addresses = interface_addresses(), .ended = ended};
  if (say(Json(ready).dump())) watch(lines, place, order);
  end_marked_processes(order.launch);
  return 0;
}

}  // namespace sluice
