#include "launch/monitors.hpp"

#include "base/error.hpp"
#include "launch/host_network.hpp"
#include "process/console.hpp"

#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>

namespace sluice {
namespace {

using Json = nlohmann::json;

/// Seconds of silence after which a host counts as out of reach.
constexpr double kSilentSeconds = 4 * kBeatSeconds;
constexpr double kAnswerSeconds = 30;
/// Seconds that hosts have to answer once those that have answered suffice.
constexpr double kOthersSeconds = 10;
/// Seconds that monitors have to end the remaining processes on hosts that answer.
constexpr double kMonitorSeconds = 4;

int slots_of(const HostMonitor& monitor) { return monitor.is_ready() ? monitor.host().slots : 0; }

/// Ranks of a monitor's host: those that have named it, or else those that mpirun puts into its slots, in
/// order.
std::vector<int> ranks_of(const HostMonitor& monitor, int first_slot,
                          const std::map<int, std::string>& hosts) {
  std::vector<int> ranks;
  for (const auto& [rank, host] : hosts)
    if (host == monitor.answer().host) ranks.push_back(rank);
  for (int slot = 0; slot < monitor.host().slots && hosts.empty(); ++slot) ranks.push_back(first_slot + slot);
  return ranks;
}

}  // namespace

HostMonitor::HostMonitor(LaunchHost host, const std::vector<std::string>& agent, const MonitorOrder& order)
    : host_(std::move(host)), command_(host_.name, agent, "host-monitor") {
  say(Json(order).dump());
}

void HostMonitor::say(const std::string& word) {
  [[maybe_unused]] const std::int64_t written = command_.write(word + "\n");
}

void HostMonitor::read() {
  while (const std::optional<std::string> line = command_.next_line()) take_line(*line);
}

/// Handles a line; output of a host's login script is ignored.
void HostMonitor::take_line(const std::string& line) {
  since_word_.restart();
  if (line.starts_with('{')) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) return;
    answer_ = json.get<MonitorAnswer>();
    is_ready_ = answer_.refused.empty();
  } else if (is_ready_) {
    std::from_chars(line.data(), line.data() + line.size(), ranks_);
  }
}

bool HostMonitor::answers() const { return descriptor() >= 0 && since_word_.seconds() < kSilentSeconds; }

Outcome HostMonitor::why_not_ready() {
  if (!answer_.refused.empty())
    return {{ExitCode::kBadConfig, "job.running"}, fmt::format("{}: {}", host_.name, answer_.refused)};
  return command_.why_not_done();
}

void await_readable(const std::vector<int>& descriptors) {
  constexpr int kMilliseconds = 200;
  std::vector<pollfd> waited;
  for (const int descriptor : descriptors) waited.push_back({descriptor, POLLIN, 0});
  ::poll(waited.data(), waited.size(), kMilliseconds);
}

Monitors::Monitors(const std::vector<LaunchHost>& hosts, const std::vector<std::string>& agent,
                   const MonitorOrder& order, int least_slots) {
  for (const LaunchHost& host : hosts) all_.emplace_back(host, agent, order);
  await_answers(least_slots);
  require_ready(least_slots);
  std::erase_if(all_, [](const HostMonitor& monitor) { return !monitor.is_ready(); });
  for (const HostMonitor& monitor : all_)
    if (const int ended = monitor.answer().ended; ended > 0)
      console::line("hosts     {}: processes that an earlier launch of this run had left were ended: {}",
                    monitor.host().name, ended);
}

void Monitors::read() {
  for (HostMonitor& monitor : all_) monitor.read();
}

void Monitors::beat() {
  if (since_beat_.seconds() < kBeatSeconds) return;
  since_beat_.restart();
  for (HostMonitor& monitor : all_) monitor.say(".");
}

std::vector<LaunchHost> Monitors::hosts() const {
  std::vector<LaunchHost> hosts;
  for (const HostMonitor& monitor : all_) hosts.push_back(monitor.host());
  return hosts;
}

std::vector<int> Monitors::descriptors() const {
  std::vector<int> found;
  for (const HostMonitor& monitor : all_) found.push_back(monitor.descriptor());
  return found;
}

std::string Monitors::networks() const {
  std::vector<HostAddresses> hosts;
  for (const HostMonitor& monitor : all_) hosts.push_back({monitor.host().name, monitor.answer().addresses});
  return networks_of(hosts);
}

std::string Monitors::addresses_text() const {
  std::vector<std::string> texts;
  for (const HostMonitor& monitor : all_)
    texts.push_back(fmt::format("{} {}", monitor.host().name, fmt::join(monitor.answer().addresses, " ")));
  return fmt::format("{}", fmt::join(texts, ", "));
}

int Monitors::ranks() const {
  int sum = 0;
  for (const HostMonitor& monitor : all_) sum += monitor.answers() ? monitor.ranks() : 0;
  return sum;
}

std::vector<LostHost> Monitors::lost(const std::map<int, std::string>& hosts) const {
  std::vector<LostHost> found;
  int first_slot = 0;
  for (const HostMonitor& monitor : all_) {
    const int slots = monitor.host().slots;
    if (!monitor.answers())
      found.push_back({monitor.host().name, ranks_of(monitor, first_slot, hosts), monitor.silent_seconds(),
                       monitor.descriptor() < 0});
    first_slot += slots;
  }
  return found;
}

void Monitors::end_processes() {
  for (HostMonitor& monitor : all_) monitor.say("end");
  for (const Deadline deadline(kMonitorSeconds); !deadline.passed();) {
    read();
    const auto is_done = [](const HostMonitor& monitor) {
      return monitor.descriptor() < 0 || !monitor.answers();
    };
    if (std::ranges::all_of(all_, is_done)) return;
    await_readable(descriptors());
  }
}

void Monitors::await_answers(int least_slots) {
  const auto has_answered = [](const HostMonitor& monitor) {
    return monitor.is_ready() || monitor.descriptor() < 0;
  };
  const Stopwatch watch;
  while (!std::ranges::all_of(all_, has_answered)) {
    if (watch.seconds() > (slots() < least_slots ? kAnswerSeconds : kOthersSeconds)) return;
    read();
    beat();
    await_readable(descriptors());
  }
}

/// Number of slots on the hosts that are ready.
int Monitors::slots() const {
  return std::accumulate(all_.begin(), all_.end(), 0,
                         [](int sum, const HostMonitor& monitor) { return sum + slots_of(monitor); });
}

/// Checks that hosts are ready. A host that refuses, because another launch of the run works there, is never
/// left out.
void Monitors::require_ready(int least_slots) {
  Outcome lack;
  bool is_refused = false;
  for (HostMonitor& monitor : all_) {
    if (monitor.is_ready()) continue;
    is_refused = is_refused || !monitor.answer().refused.empty();
    const Outcome one = monitor.why_not_ready();
    if (lack.code != ExitCode::kInternal) static_cast<Cause&>(lack) = one;
    lack.text += "\n  " + one.text;
  }
  if (!lack.failed()) return;
  if (is_refused || slots() < least_slots) fail(lack, "launch: not every host is ready:{}", lack.text);
  console::line("hosts     this start goes on without those that are not ready:{}", lack.text);
}

}  // namespace sluice
