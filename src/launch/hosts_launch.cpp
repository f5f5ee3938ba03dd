#include "launch/hosts_launch.hpp"

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "comm/outcome.hpp"
#include "launch/handover.hpp"
#include "launch/host_network.hpp"
#include "launch/job_end.hpp"
#include "launch/launcher.hpp"
#include "launch/monitors.hpp"
#include "process/console.hpp"
#include "process/launch_mark.hpp"
#include "process/signal_watch.hpp"

#include <fcntl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>

namespace sluice {
namespace {

struct LaunchEnd {
  int code = 0;  ///< exit status of the job
  /// Whether the job failed, and starting it again may help (may_start_again() of job_end.hpp).
  bool may_start_again = false;
  std::int64_t saved_step = 0;  ///< last step that the job's ranks have saved; 0: none
};

/// Names of Open MPI's settings for the network of ranks and of daemons.
constexpr const char* kNetworkOfRanks = "btl_tcp_if_include";
constexpr const char* kNetworkOfDaemons = "oob_tcp_if_include";

/// Seconds that ranks have to join each other before a line tells what may hinder them.
constexpr double kStartSeconds = 30;
/// Seconds that mpirun has to end the job by itself once a rank has failed.
constexpr double kLauncherSeconds = 4;
/// Seconds that mpirun may go on while a host is out of reach and no rank is seen on the others.
constexpr double kNoRankSeconds = 10;

/// An mpirun with its stderr, until it ends.
class LaunchedJob {
 public:
  LaunchedJob(const HostsLaunch& launch, int ranks, const std::vector<std::string>& words, Monitors& monitors)
      : launch_(launch), ranks_(ranks), monitors_(monitors) {
    sigset_t signals = request_signals();
    ::sigaddset(&signals, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &signals, &mask_before_);
    signals_ = FileDescriptor(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (signals_.get() < 0)
      fail(ExitCode::kTooLittle, "cannot start {}: {}", words.front(), errno_text(errno));
    Pipe errors = make_pipe();
    ::fcntl(errors.reading.get(), F_SETFL, O_NONBLOCK);
    launcher_.emplace(start_launcher(words, errors.writing.get()));
    relay_.emplace(*launcher_);
    errors_ = std::move(errors.reading);
  }

  /// Restores the earlier effect of signals.
  ~LaunchedJob() { ::sigprocmask(SIG_SETMASK, &mask_before_, nullptr); }
  LaunchedJob(const LaunchedJob&) = delete;
  LaunchedJob& operator=(const LaunchedJob&) = delete;

  LaunchEnd run() {
    while (!status_) {
      look();
      if (must_end()) launcher_->signal(SIGKILL);
    }
    // Hosts that were lost, asked before the others are ended too.
    const std::vector<LostHost> lost = monitors_.lost(output_.hosts());
    monitors_.end_processes();
    read_errors();
    return explain(lost);
  }

 private:
  void look() {
    std::vector<int> descriptors = monitors_.descriptors();
    descriptors.insert(descriptors.end(), {signals_.get(), errors_.get()});
    await_readable(descriptors);
    monitors_.read();
    monitors_.beat();
    read_errors();
    output_.pass_old_blocks();
    tell_of_absent_ranks();
    take_signals();
  }

  /// Tells of ranks that have not joined: ranks that cannot reach each other while MPI starts wait for
  /// minutes without a message.
  void tell_of_absent_ranks() {
    if (has_told_of_absent_ || since_start_.seconds() < kStartSeconds) return;
    has_told_of_absent_ = true;
    const auto joined = static_cast<int>(output_.hosts().size());
    if (joined == ranks_) return;
    console::line(
        "hosts     {} of {} ranks have joined in {:.0f} s. Where hosts have several networks, add the one "
        "that links them: -- --mca {} NETWORK --mca {} NETWORK. Their addresses: {}",
        joined, ranks_, kStartSeconds, kNetworkOfRanks, kNetworkOfDaemons, monitors_.addresses_text());
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
    status_ = launcher_->wait_until(Deadline(0));
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

  /// Seconds that ranks still have if all hosts are out of reach: the longest limit of a section.
  double longest_wait() const {
    return monitors_.lost({}).size() == monitors_.hosts().size() ? launch_.longest_section_seconds : 0;
  }

  LaunchEnd explain(const std::vector<LostHost>& lost) {
    const int status = exit_status(*status_);
    const bool was_asked = relay_->has_request();
    const bool has_done_its_work = status == 0 || status == static_cast<int>(ExitCode::kResumable);
    JobEnd end{ranks_, output_.endings(), output_.hosts(), {}, launch_.run, output_.saved_step()};
    if (!has_done_its_work) end.lost = lost;
    if (!has_done_its_work && !was_asked) end.death = death(status);
    if (end_code(end) == 0) {
      if (has_done_its_work || was_asked) output_.drop_deaths();
      output_.pass_blocks();
      return {status, !has_done_its_work && !was_asked, end.saved_step};
    }
    output_.drop_blocks();
    console::report(end_report(end));
    return {end_code(end), !was_asked && may_start_again(end), end.saved_step};
  }

  /// The rank that died without a message, according to mpirun, or at least to its exit status.
  std::optional<RankDeath> death(int status) const {
    std::optional<RankDeath> told = output_.death();
    if (!told && WIFEXITED(*status_) && status > 128) told = death_of_status(status);
    return told;
  }

  const HostsLaunch& launch_;
  const int ranks_;
  Monitors& monitors_;
  sigset_t mask_before_{};
  FileDescriptor signals_{-1};
  FileDescriptor errors_{-1};
  std::optional<ChildProcess> launcher_;
  std::optional<SignalRelay> relay_;
  LauncherOutput output_;
  std::optional<int> status_;
  std::optional<Stopwatch> since_ending_;  ///< time since a rank has told why the job ends
  Stopwatch since_start_;
  bool has_told_of_absent_ = false;
  Stopwatch since_hope_;  ///< time since a rank was seen, or since every host answered
};

/// Words that start mpirun, without its command.
std::vector<std::string> launcher_words(const HostsLaunch& launch, int ranks, const Monitors& monitors,
                                        const std::string& id) {
  std::vector<std::string> words = mpirun_words(ranks, monitors.hosts(), launch.launcher_options);
  words.insert(words.end(), {"--mca", std::string(kLaunchMark), id});
  const std::string networks = launch.chooses_network ? monitors.networks() : "";
  if (networks.empty()) return words;
  console::line("hosts     talk on {}, which their names resolve to", networks);
  for (const char* setting : {kNetworkOfRanks, kNetworkOfDaemons})
    words.insert(words.end(), {"--mca", setting, networks});
  return words;
}

void hand_inputs_over(const HostsLaunch& launch, Monitors& monitors) {
  for (const LaunchHost& host : monitors.hosts()) {
    if (launch.inputs.empty() || is_this_machine(host.name)) continue;
    const Stopwatch watch;
    const std::int64_t bytes = hand_over(host.name, launch.agent, launch.inputs, [&] {
      monitors.read();
      monitors.beat();
    });
    if (bytes > 0)
      console::line("hosts     {} lacked {} of the job's files: handed over in {:.1f} s", host.name,
                    format_bytes(bytes), watch.seconds());
  }
}

/// Starts the ranks and waits for their end, which it brings about within 15 s of the first one that fails.
LaunchEnd run_once(const HostsLaunch& launch) {
  ::signal(SIGPIPE, SIG_IGN);  // who reads the lines of this process may end before the job does
  constexpr double kMoreSilence = 15;
  const std::string id = new_launch_id(launch.run_id);
  Monitors monitors(launch.hosts, launch.agent,
                    {launch.run_id, id, launch.longest_section_seconds + kMoreSilence}, launch.least_slots);
  hand_inputs_over(launch, monitors);
  const int ranks = std::min(launch.ranks, total_slots(monitors.hosts()));
  std::vector<std::string> words = launcher_words(launch, ranks, monitors, id);
  words.insert(words.end(), launch.command.begin(), launch.command.end());
  return LaunchedJob(launch, ranks, words, monitors).run();
}

/// Runs the job again; even too few hosts that answer may be temporary.
LaunchEnd run_again(const HostsLaunch& launch) {
  LaunchEnd end;
  const Outcome failure = outcome_of([&] { end = run_once(launch); });
  if (!failure.failed()) return end;
  console::report(fmt::format("sluice: {}", failure.text_with_id()));
  return {static_cast<int>(failure.code), failure.code == ExitCode::kInternal};
}

}  // namespace

double restart_delay(int restart) {
  constexpr double kFirst = 2, kMost = 60;
  return std::min(kMost, std::ldexp(kFirst, std::min(restart, 16) - 1));
}

int run_on_hosts(const HostsLaunch& launch, int most_restarts) {
  std::int64_t saved = 0;
  LaunchEnd end = run_once(launch);
  for (int in_a_row = 1; end.may_start_again && most_restarts > 0; ++in_a_row) {
    if (end.saved_step > saved) in_a_row = 1;
    saved = std::max(saved, end.saved_step);
    if (in_a_row > most_restarts) {
      console::report(fmt::format("sluice: {} restarts in a row have saved no step{}, so this is the end",
                                  most_restarts, saved == 0 ? "" : fmt::format(" after step {}", saved)));
      break;
    }
    const double delay = restart_delay(in_a_row);
    console::line("restart   {} of {} without a new checkpoint, in {:.0f} s, from {}; Ctrl-C ends it",
                  in_a_row, most_restarts, delay,
                  saved == 0 ? "what is saved" : fmt::format("step {}", saved));
    std::this_thread::sleep_for(std::chrono::duration<double>(delay));
    end = run_again(launch);
  }
  return end.code;
}

}  // namespace sluice
