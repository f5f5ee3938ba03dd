#include "job/launch/hosts_launch.hpp"

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "job/console.hpp"
#include "job/launch/host_monitor.hpp"
#include "job/launch/host_network.hpp"
#include "job/launch/job_end.hpp"
#include "job/launch/launch_mark.hpp"
#include "job/launch/launcher.hpp"
#include "job/launch/launcher_output.hpp"
#include "job/signal_watch.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <deque>
#include <optional>
#include <utility>

namespace sluice {
namespace {

/// Settings of Open MPI.
constexpr const char* kNetworkOfRanks = "btl_tcp_if_include";
constexpr const char* kNetworkOfDaemons = "oob_tcp_if_include";

constexpr double kAnswerSeconds = 30;
/// What mpirun has for ending the job by itself, once a rank has failed.
constexpr double kLauncherSeconds = 4;
/// What monitors have for ending what is left, on the hosts that answer.
constexpr double kMonitorSeconds = 4;
/// How long mpirun may go on while a host is out of reach and no rank is seen on the others.
constexpr double kNoRankSeconds = 10;
constexpr int kPollMilliseconds = 200;

/// Waits until one of the descriptors is readable, or for a moment; negative ones are passed over.
void await(const std::vector<int>& descriptors) {
  std::vector<pollfd> waited;
  for (const int descriptor : descriptors) waited.push_back({descriptor, POLLIN, 0});
  ::poll(waited.data(), waited.size(), kPollMilliseconds);
}

/// The monitors of all hosts.
class Monitors {
 public:
  Monitors(const HostsLaunch& launch, const std::string& id) {
    constexpr double kMore = 15;
    const MonitorOrder order{launch.run_id, id, launch.longest_section_seconds + kMore};
    for (const LaunchHost& host : launch.hosts) all_.emplace_back(host, launch.agent, order);
    await_answers();
  }

  void read() {
    for (HostMonitor& monitor : all_) monitor.read();
  }

  void beat() {
    if (since_beat_.seconds() < kBeatSeconds) return;
    since_beat_.restart();
    for (HostMonitor& monitor : all_) monitor.beat();
  }

  [[nodiscard]] std::vector<int> descriptors() const {
    std::vector<int> found;
    for (const HostMonitor& monitor : all_) found.push_back(monitor.descriptor());
    return found;
  }

  /// Networks that their names resolve to; "" if that is not known.
  [[nodiscard]] std::string networks() const {
    std::vector<HostAddresses> hosts;
    for (const HostMonitor& monitor : all_) hosts.push_back({monitor.host().name, monitor.addresses()});
    return networks_of(hosts);
  }

  /// Ranks on the hosts that answer.
  [[nodiscard]] int ranks() const {
    int sum = 0;
    for (const HostMonitor& monitor : all_) sum += monitor.answers() ? monitor.ranks() : 0;
    return sum;
  }

  /// The hosts that do not answer, with the ranks that ran there.
  [[nodiscard]] std::vector<LostHost> lost(const std::map<int, std::string>& hosts) const {
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

  /// Ends all processes of the launch on the hosts that answer; returns when that is done, or after some
  /// seconds.
  void end_processes() {
    for (HostMonitor& monitor : all_) monitor.end_processes();
    for (const Deadline deadline(kMonitorSeconds); !deadline.passed();) {
      read();
      const auto is_done = [](const HostMonitor& monitor) {
        return monitor.descriptor() < 0 || !monitor.answers();
      };
      if (std::ranges::all_of(all_, is_done)) return;
      await(descriptors());
    }
  }

 private:
  void await_answers() {
    const auto has_answered = [](const HostMonitor& monitor) {
      return monitor.is_ready() || monitor.descriptor() < 0;
    };
    for (const Deadline deadline(kAnswerSeconds); !deadline.passed();) {
      read();
      beat();
      if (std::ranges::all_of(all_, has_answered)) break;
      await(descriptors());
    }
    require_ready();
    for (const HostMonitor& monitor : all_)
      if (monitor.fenced() > 0)
        console::line("hosts     {}: processes that an earlier launch of this run had left were ended: {}",
                      monitor.host().name, monitor.fenced());
  }

  void require_ready() {
    Outcome lack;
    for (HostMonitor& monitor : all_) {
      if (monitor.is_ready()) continue;
      const Outcome one = monitor.why_not_ready();
      lack.code = lack.code == ExitCode::kInternal ? lack.code : one.code;
      lack.text += "\n  " + one.text;
    }
    if (lack.failed()) fail(lack.code, "launch: not every host is ready:{}", lack.text);
  }

  /// The monitor's ranks: those that have named its host, or else those that mpirun puts into its slots, in
  /// order.
  static std::vector<int> ranks_of(const HostMonitor& monitor, int first_slot,
                                   const std::map<int, std::string>& hosts) {
    std::vector<int> ranks;
    for (const auto& [rank, host] : hosts)
      if (host == monitor.name()) ranks.push_back(rank);
    for (int slot = 0; slot < monitor.host().slots && hosts.empty(); ++slot)
      ranks.push_back(first_slot + slot);
    return ranks;
  }

  std::deque<HostMonitor> all_;
  Stopwatch since_beat_;
};

/// mpirun with its stderr, until its end.
class LaunchedJob {
 public:
  LaunchedJob(const HostsLaunch& launch, std::vector<std::string> words, Monitors& monitors)
      : launch_(launch), monitors_(monitors) {
    sigset_t signals = request_signals(), before;
    ::sigaddset(&signals, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &signals, &before);
    signals_ = FileDescriptor(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    std::array<int, 2> pipe{};
    if (signals_.get() < 0 || ::pipe2(pipe.data(), O_CLOEXEC) != 0)
      fail(ExitCode::kTooLittle, "cannot start {}: {}", words.front(), errno_text(errno));
    errors_ = FileDescriptor(pipe[0]);
    const FileDescriptor writing(pipe[1]);
    ::fcntl(errors_.get(), F_SETFL, O_NONBLOCK);
    launcher_ = start_launcher(std::move(words), before, writing.get());
    relay_.emplace(launcher_);
  }

  /// Returns the exit status.
  int run() {
    while (!status_) {
      look();
      if (must_end()) ::kill(launcher_, SIGKILL);
    }
    const std::vector<LostHost> lost = monitors_.lost(output_.hosts());  // before the others are ended too
    monitors_.end_processes();
    read_errors();
    return explain(lost);
  }

 private:
  void look() {
    std::vector<int> descriptors = monitors_.descriptors();
    descriptors.insert(descriptors.end(), {signals_.get(), errors_.get()});
    await(descriptors);
    monitors_.read();
    monitors_.beat();
    read_errors();
    output_.pass_old_blocks();
    take_signals();
  }

  void read_errors() {
    for (;;) {
      std::array<char, 64 * kKiB> part;
      const ssize_t count = ::read(errors_.get(), part.data(), part.size());
      if (count <= 0) return;
      output_.take({part.data(), static_cast<std::size_t>(count)});
    }
  }

  void take_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == sizeof info)
      if (info.ssi_signo != SIGCHLD) relay_->take(static_cast<int>(info.ssi_signo));
    int status = 0;
    if (::waitpid(launcher_, &status, WNOHANG) == launcher_) status_ = status;
  }

  /// Whether mpirun, which waits for minutes for the daemon of a host that is out of reach, has had its time.
  bool must_end() {
    if (!output_.endings().empty()) {
      if (!since_ending_) since_ending_.emplace();
      return since_ending_->seconds() > kLauncherSeconds;
    }
    if (monitors_.ranks() > 0 || monitors_.lost({}).empty()) since_hope_.restart();
    return since_hope_.seconds() > kNoRankSeconds + longest_wait();
  }

  /// What ranks still have, seconds, where all hosts are out of reach: the longest limit of a section.
  double longest_wait() const {
    return monitors_.lost({}).size() == launch_.hosts.size() ? launch_.longest_section_seconds : 0;
  }

  int explain(const std::vector<LostHost>& lost) {
    const int status = WIFSIGNALED(*status_) ? 128 + WTERMSIG(*status_) : WEXITSTATUS(*status_);
    const bool has_done_its_work = status == 0 || status == static_cast<int>(ExitCode::kResumable);
    const JobEnd end{launch_.ranks, output_.endings(), output_.hosts(),
                     has_done_its_work ? std::vector<LostHost>{} : lost, launch_.run};
    const bool is_told = end_code(end) != 0 && !(output_.tells_of_crash() && output_.endings().empty());
    if (!is_told) {
      output_.pass_blocks();
      return status;
    }
    output_.drop_blocks();
    console::report(end_report(end));
    return end_code(end);
  }

  const HostsLaunch& launch_;
  Monitors& monitors_;
  FileDescriptor signals_{-1};
  FileDescriptor errors_{-1};
  pid_t launcher_ = -1;
  std::optional<SignalRelay> relay_;
  LauncherOutput output_;
  std::optional<int> status_;
  std::optional<Stopwatch> since_ending_;  ///< time since a rank has said why the job ends
  Stopwatch since_hope_;                   ///< time since a rank was seen, or every host answered
};

}  // namespace

int run_on_hosts(const HostsLaunch& launch) {
  ::signal(SIGPIPE, SIG_IGN);  // of a monitor that has gone
  const std::string id = new_launch_id(launch.run_id);
  Monitors monitors(launch, id);
  std::vector<std::string> words = launch.launcher;
  words.insert(words.end(), {"--mca", std::string(kLaunchMark), id});
  if (const std::string networks = launch.chooses_network ? monitors.networks() : ""; !networks.empty()) {
    console::line("hosts     talk on {}, which their names resolve to", networks);
    for (const char* setting : {kNetworkOfRanks, kNetworkOfDaemons})
      words.insert(words.end(), {"--mca", setting, networks});
  }
  words.insert(words.end(), launch.command.begin(), launch.command.end());
  return LaunchedJob(launch, std::move(words), monitors).run();
}

}  // namespace sluice
