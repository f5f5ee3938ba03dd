#include "base/digest.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "config/job_config.hpp"
#include "io/path.hpp"
#include "job/commands/commands.hpp"
#include "job/exec_compute_program.hpp"
#include "job/prepare/job_inputs.hpp"
#include "launch/handover.hpp"
#include "launch/host_command.hpp"
#include "launch/host_list.hpp"
#include "launch/hosts_launch.hpp"
#include "launch/launcher.hpp"
#include "launch/monitors.hpp"
#include "process/console.hpp"
#include "process/launch_mark.hpp"
#include "process/signal_watch.hpp"
#include "train/guard/step_limit.hpp"

#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

namespace sluice {
namespace {

struct LaunchArguments {
  JobArguments job;
  int ranks = 0;        ///< number of ranks; 0: as many as the hosts have slots
  std::string hosts;    ///< hosts with slots, "h1,h2:2"; "": this machine, or hosts in the launcher's options
  int restarts = 0;     ///< most restarts in a row without a new saved step
  int least_ranks = 0;  ///< least number of ranks to start with; 0: no host may be left out
  std::vector<std::string> launcher_options;  ///< options for mpirun
  /// Command that ranks run in place of the job: {"generate", "models/m", ...}.
  std::vector<std::string> command{};
  const CommandLine* line = nullptr;  ///< the command line, which knows the job of such a command
};

namespace fs = std::filesystem;

/// Words that start a rank and make it ignore the signals that this process was started to ignore, since
/// launchers reset them to their defaults. SIGUSR1 is never ignored: it asks ranks to save.
std::vector<std::string> words_that_ignore(const std::vector<int>& signals) {
  std::string names;
  for (const int number : signals)
    if (number != SIGUSR1) names += " " + signal_name(number).substr(std::string_view("SIG").size());
  if (names.empty()) return {};
  return {"sh", "-c", fmt::format(R"(trap ''{} && exec "$0" "$@")", names)};
}

/// Words that start a rank: THIS_PROGRAM run --set... -- JOB.
std::vector<std::string> rank_words(const LaunchArguments& arguments) {
  std::vector<std::string> words = words_that_ignore(ignored_requests());
  words.push_back(fs::read_symlink("/proc/self/exe").string());
  const std::vector<std::string> command =
      arguments.command.empty() ? run_words(arguments.job) : arguments.command;
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

/// Sets the number of ranks to the number of slots, if none is given.
void set_ranks(LaunchArguments& arguments, const std::vector<LaunchHost>& hosts) {
  const int slots = total_slots(hosts);
  if (arguments.ranks == 0) arguments.ranks = slots;
  if (arguments.ranks == 0)
    fail({ExitCode::kUsage, "command.usage"},
         "launch: expected the number of ranks (-n), or the hosts (--hosts h1,h2)");
  if (!hosts.empty() && arguments.ranks > slots)
    fail({ExitCode::kUsage, "command.usage"},
         "launch: {} ranks are more than the {} that the hosts take; give them more slots, as in h1:2",
         arguments.ranks, slots);
}

/// Refuses a missing job file once, here. Otherwise each rank would refuse it, or mpirun would take the next
/// word for a program.
void require_job_file(const fs::path& file) {
  if (!path_exists(file))
    fail({ExitCode::kBadConfig, "config.unreadable"},
         "launch: there is no job file {}; expected one, or `generate` or `chat` with their arguments. "
         "Options of mpirun go behind --",
         file.string());
}

/// Runs the ranks on this machine under the launcher, and passes signals on until it has ended.
int run_by_launcher(const std::vector<std::string>& words) {
  sigset_t signals = request_signals();
  sigaddset(&signals, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  ChildProcess launcher = start_launcher(words);
  SignalRelay relay(launcher);
  for (;;) {
    int number = 0;
    if (::sigwait(&signals, &number) != 0) continue;
    if (number != SIGCHLD)
      relay.take(number);
    else if (const std::optional<int> status = launcher.wait_until(Deadline(0)))
      return exit_status(*status);
  }
}

/// Longest time in seconds after which a rank of the job notices that another one is lost.
double longest_section(const DeadlineSettings& deadline) {
  return std::max({deadline.setup_seconds, deadline.load_seconds,
                   StepLimit::kFirstTimes * deadline.step_seconds, deadline.evaluate_seconds,
                   deadline.save_seconds, deadline.finish_seconds});
}

/// Whether the user's options say which network ranks use.
bool names_network(const std::vector<std::string>& options) {
  for (const std::string setting : {"btl_tcp_if_include", "btl_tcp_if_exclude"})
    if (std::ranges::find(options, setting) != options.end() ||
        std::getenv(("OMPI_MCA_" + setting).c_str()) != nullptr)
      return true;
  return false;
}

/// Id of the run, from its run directory or else the job file; each launch of answers is a run of its own.
std::string run_id(const LaunchArguments& arguments, const fs::path& run) {
  const fs::path owner = run.empty() ? fs::absolute(arguments.job.file) : run;
  return digest_of(arguments.command.empty() ? owner.lexically_normal().string() : new_launch_id("")).hex();
}

/// Checks that a restart can go on from what the attempt before it has saved.
void require_going_on(const JobConfig& config) {
  if (is_training(config.job.kind) &&
      (config.job.overwrite || config.checkpoint.resume != CheckpointSettings::kResumeNewest))
    fail({ExitCode::kBadConfig, "config.contradiction"},
         "launch --restarts: by job.overwrite or checkpoint.resume each restart would begin anew; expected "
         "job.overwrite = false and checkpoint.resume = \"newest\"");
}

/// The job that the ranks run, from its file or from the command in place of it.
JobConfig job_of(const LaunchArguments& arguments) {
  return arguments.command.empty() ? load_job_config(arguments.job.file, arguments.job.overrides)
                                   : arguments.line->rank_job();
}

/// Reads what must be known of a job before it starts.
void read_job(const LaunchArguments& arguments, const JobConfig& config, HostsLaunch& launch) {
  const bool is_file = arguments.command.empty();
  launch.inputs = job_inputs(is_file ? arguments.job.file : fs::path(), config);
  if (!config.job.output.empty()) launch.run = fs::absolute(config.job.output);
  if (is_file && arguments.restarts > 0) require_going_on(config);
  launch.longest_section_seconds = longest_section(config.deadline);
}

int run_job_on_hosts(const LaunchArguments& arguments, const JobConfig& config,
                     const std::vector<LaunchHost>& hosts) {
  HostsLaunch launch;
  launch.hosts = hosts;
  launch.ranks = arguments.ranks;
  launch.least_slots = arguments.least_ranks == 0 ? total_slots(hosts) : arguments.least_ranks;
  launch.launcher_options = arguments.launcher_options;
  launch.chooses_network = !names_network(arguments.launcher_options);
  launch.command = rank_words(arguments);
  launch.agent = agent_words(arguments.launcher_options);
  if (!arguments.command.empty()) console::keep_stdout_for_results();
  read_job(arguments, config, launch);
  launch.run_id = run_id(arguments, launch.run);
  return run_on_hosts(launch, arguments.restarts);
}

/// Hosts given by --hosts or by the launcher's options; not by both, because mpirun would combine them.
std::vector<LaunchHost> named_hosts(LaunchArguments& arguments) {
  std::vector<LaunchHost> of_options = take_hosts(arguments.launcher_options);
  if (arguments.hosts.empty()) return of_options;
  if (!of_options.empty())
    fail({ExitCode::kUsage, "command.usage"},
         "launch: the hosts are {} by --hosts and {} by mpirun's options; expected one of them",
         printable(arguments.hosts), hosts_text(of_options));
  return parse_hosts(arguments.hosts);
}

void require_restarts_on_hosts(const LaunchArguments& arguments, const std::vector<LaunchHost>& hosts,
                               bool is_chat) {
  if (arguments.restarts == 0 && arguments.least_ranks == 0) return;
  if (hosts.empty() || is_chat)
    fail({ExitCode::kUsage, "command.usage"},
         "launch: --restarts and --min-ranks are for a job on hosts (--hosts h1,h2)");
  if (arguments.least_ranks > arguments.ranks)
    fail({ExitCode::kUsage, "command.usage"}, "launch: --min-ranks is {}, more than the {} ranks of the job",
         arguments.least_ranks, arguments.ranks);
}

/// Runs a job under mpirun (or the launcher in the variable MPIRUN) and returns the job's exit status. The
/// first signal that asks for it (process/signal_watch.hpp) lets the job finish its step and save; the second
/// one is passed on unchanged.
int launch_command(LaunchArguments arguments) {
  const std::vector<LaunchHost> hosts = named_hosts(arguments);
  set_ranks(arguments, hosts);
  if (arguments.command.empty()) require_job_file(arguments.job.file);
  const bool is_chat = !arguments.command.empty() && arguments.command.front() == "chat";
  require_restarts_on_hosts(arguments, hosts, is_chat);
  avoid_single_copy(arguments.launcher_options);
  if (!hosts.empty()) {
    const JobConfig config = job_of(arguments);
    std::ranges::move(variable_words(config.variables, arguments.launcher_options),
                      std::back_inserter(arguments.launcher_options));
    if (!is_chat) return run_job_on_hosts(arguments, config, hosts);
  }
  std::vector<std::string> words = mpirun_words(arguments.ranks, hosts, arguments.launcher_options);
  const std::vector<std::string> command = rank_words(arguments);
  words.insert(words.end(), command.begin(), command.end());
  // The launcher replaces this process, so that the terminal's input goes to rank 0.
  if (is_chat) become_launcher(words);
  return run_by_launcher(words);
}

/// Arguments of commands that run on hosts: none, because they get everything on stdin.
struct HostArguments {};

}  // namespace

void add_host_commands(CommandLine& line) {
  const auto monitor =
      add_command<HostArguments>(line, "host-monitor", "What launch --hosts starts on each host",
                                 [](const HostArguments&) { return monitor_host(); });
  const auto receive =
      add_command<HostArguments>(line, "receive-files", "What launch --hosts hands a job's files over to",
                                 [](const HostArguments&) { return receive_files(); });
  for (CLI::App* const command : {&monitor.app, &receive.app})
    command->group("");  // hidden from --help, because users do not start them
}

void add_launch(CommandLine& line) {
  const auto [command, arguments] = add_command<LaunchArguments>(
      line, "launch", "Run a job under mpirun; Ctrl-C once lets it save and end with 75", launch_command);
  arguments.command = line.rank_command;
  arguments.line = &line;
  add_job_arguments(command, arguments.job);
  add_ranks(command, "-n,--ranks", arguments.ranks, "Number of ranks; with hosts that of their slots");
  command.add_option(
      "--hosts", arguments.hosts,
      "Hosts as h1,h2:2, a rank on each, or as many as follow the colon; as -- --hostfile FILE");
  command
      .add_option("--restarts", arguments.restarts,
                  "With hosts: start again after a loss, so many times in a row without a new checkpoint")
      ->check(CLI::Range(0, 1000));
  command
      .add_option("--min-ranks", arguments.least_ranks,
                  "With hosts: start without hosts that do not answer, if those that do take so many ranks")
      ->check(CLI::Range(1, 1000000));
  command.add_option("options", arguments.launcher_options, "Options of mpirun, behind --");
  command.footer(
      "\nIn place of a job file: generate or chat and their arguments.\n\n"
      "Hosts are reached as mpirun reaches them, by ssh without a password or by what -- --mca "
      "plm_rsh_agent\nnames, and have this program at this path. A host that lacks job file, token files or "
      "what lies beside the model's\nweights gets them from this one. When a rank, a host or a link is lost "
      "all ends on every host\nthat can be reached, with one explanation and exit code 70 for a rank, host "
      "or link; what an earlier\nlaunch of the same run has left on a host is ended before the ranks start. "
      "--restarts then starts it\nagain from the newest checkpoint, by --min-ranks on the hosts that "
      "answer.");
}

}  // namespace sluice
