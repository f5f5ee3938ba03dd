#include "job/launch/host_monitor.hpp"

#include <fmt/format.h>

#include <charconv>
#include <utility>

namespace sluice {
namespace {

using Json = nlohmann::json;

/// Seconds of silence after which a host counts as out of reach.
constexpr double kSilentSeconds = 4 * kBeatSeconds;

}  // namespace

HostMonitor::HostMonitor(LaunchHost host, const std::vector<std::string>& agent, const MonitorOrder& order)
    : host_(std::move(host)), command_(host_.name, agent, "host-monitor") {
  say(Json(order).dump().c_str());
}

/// Writes to the monitor; a monitor that has ended, or does not read, is ignored.
void HostMonitor::say(const char* word) {
  [[maybe_unused]] const std::int64_t written = command_.write(std::string(word) + "\n");
}

void HostMonitor::read() {
  text_ += command_.read();
  for (std::size_t end = 0; (end = text_.find('\n')) != text_.npos; text_.erase(0, end + 1))
    take_line(text_.substr(0, end));
}

/// Handles a line; output of a host's login script is ignored.
void HostMonitor::take_line(const std::string& line) {
  since_word_.restart();
  if (line.starts_with('{')) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) return;
    refusal_ = json.value("refused", "");
    name_ = json.value("host", "");
    addresses_ = json.value("addresses", std::vector<std::string>{});
    fenced_ = json.value("ended", 0);
    is_ready_ = refusal_.empty();
  } else if (is_ready_) {
    std::from_chars(line.data(), line.data() + line.size(), ranks_);
  }
}

bool HostMonitor::answers() const { return descriptor() >= 0 && since_word_.seconds() < kSilentSeconds; }

Outcome HostMonitor::why_not_ready() {
  if (!refusal_.empty()) return {ExitCode::kBadConfig, fmt::format("{}: {}", host_.name, refusal_)};
  return command_.why_not_done();
}

}  // namespace sluice
