#include "launch/launcher.hpp"

#include "base/error.hpp"
#include "base/log.hpp"
#include "comm/mpi/mpi_environment.hpp"
#include "comm/mpi/single_copy.hpp"
#include "io/neighbour_trial.hpp"
#include "process/signal_watch.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <utility>

namespace sluice {
namespace {

[[noreturn]] void refuse_launcher(const std::string& cause) {
  fail({ExitCode::kUsage, "launch.program"}, "{}; it must be in PATH, or named by the variable MPIRUN",
       cause);
}

/// Seconds that a block of mpirun waits for the end of the job, which it may be about.
constexpr double kBlockSeconds = 10;
/// First words of mpirun's block of help that precedes its report of an ended rank.
constexpr std::string_view kSummary = "Primary job  terminated normally, but ";

void pass_on(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

bool is_dashes(std::string_view line) {
  constexpr std::size_t kFewest = 60;
  return line.size() >= kFewest && line.find_first_not_of('-') == line.npos;
}

}  // namespace

std::vector<std::string> mpirun_words(int ranks, const std::vector<LaunchHost>& hosts,
                                      const std::vector<std::string>& options) {
  const char* launcher = std::getenv("MPIRUN");
  std::vector<std::string> words{launcher == nullptr ? "mpirun" : launcher, "-np", fmt::format("{}", ranks)};
  if (!hosts.empty()) words.insert(words.end(), {"--host", hosts_text(hosts)});
  const auto binds = [](const std::string& word) { return word == "--bind-to" || word == "-bind-to"; };
  if (std::ranges::none_of(options, binds)) words.insert(words.end(), {"--bind-to", "none"});
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

std::vector<std::string> variable_words(const std::set<std::string>& names,
                                        const std::vector<std::string>& options) {
  constexpr const char* kOwnList = "mca_base_env_list";
  if (std::getenv(fmt::format("OMPI_MCA_{}", kOwnList).c_str()) != nullptr ||
      std::ranges::find(options, kOwnList) != options.end())
    return {};
  std::set<std::string> passed_on;
  for (std::size_t i = 0; i + 1 < options.size(); ++i)
    if (options[i] == "-x" || options[i] == "--x")
      passed_on.insert(options[i + 1].substr(0, options[i + 1].find('=')));
  std::vector<std::string> words;
  for (const std::string& name : names)
    if (!passed_on.contains(name)) words.insert(words.end(), {"-x", name});
  return words;
}

void avoid_single_copy(const std::vector<std::string>& options) {
  const auto setting = setting_without_single_copy(MpiEnvironment::library_version());
  if (!setting || is_set_for_library(setting->name)) return;
  if (std::ranges::find(options, setting->name) != options.end() || can_read_neighbours()) return;
  ::setenv(setting->variable().c_str(), setting->value.c_str(), /*overwrite=*/0);
  log::info("processes may not read each other's memory here: ranks run with {}={}", setting->variable(),
            setting->value);
}

ChildProcess start_launcher(const std::vector<std::string>& words, int errors) {
  try {
    return {words, {.output = STDOUT_FILENO, .error = errors}, ProcessGroup::kOwn};
  } catch (const Error& error) {
    refuse_launcher(error.what());
  }
}

void become_launcher(const std::vector<std::string>& words) {
  refuse_launcher(fmt::format("{} cannot be started: {}", words.front(), errno_text(become_program(words))));
}

void SignalRelay::take(int number) {
  if (request_ == 0) {
    request_ = number;
    since_request_.restart();
    launcher_.signal(SIGUSR1);
  } else if (!repeats_request(number, request_, since_request_.seconds())) {
    launcher_.signal(number == SIGQUIT ? SIGTERM : number);  // SIGQUIT would leave the ranks running
  }
}

void LauncherOutput::take(std::string_view text) {
  partial_ += text;
  for (std::size_t end = 0; (end = partial_.find('\n')) != partial_.npos; partial_.erase(0, end + 1))
    take_line(partial_.substr(0, end));
}

void LauncherOutput::take_line(const std::string& line) {
  if (const auto record = parse_rank_record(line)) {
    if (record->rank >= 0) hosts_[record->rank] = record->host;
    if (record->code != 0) endings_.push_back(*record);
    if (record->saved_step > 0) saved_step_ = record->saved_step;
    return;
  }
  if (is_dashes(line)) {
    block_ += line + "\n";
    if (is_in_block_) end_block();
    is_in_block_ = !is_in_block_;
  } else if (is_in_block_) {
    block_ += line + "\n";
  } else {
    has_crash_ =
        has_crash_ || (line.starts_with("sluice: rank ") && line.find(" crashed with ") != line.npos);
    pass_on(line + "\n");
  }
}

void LauncherOutput::end_block() {
  const std::optional<RankDeath> death = parse_rank_death(block_);
  if (death && !death_) death_ = death;
  const bool tells_of_death = death || block_.find(kSummary) != block_.npos;
  blocks_.push_back({std::exchange(block_, ""), tells_of_death});
}

void LauncherOutput::drop_deaths() {
  std::erase_if(blocks_, [](const Block& block) { return block.tells_of_death; });
}

std::optional<RankDeath> LauncherOutput::death() const {
  std::optional<RankDeath> death = death_;
  if (death) death->has_told = has_crash_;
  return death;
}

void LauncherOutput::pass_old_blocks() {
  const auto is_old = [](const Block& block) {
    return block.age.seconds() > kBlockSeconds && !block.tells_of_death;
  };
  const auto young = std::ranges::find_if_not(blocks_, is_old);
  std::for_each(blocks_.begin(), young, [](const Block& block) { pass_on(block.text); });
  blocks_.erase(blocks_.begin(), young);
}

void LauncherOutput::pass_blocks() {
  for (const Block& block : blocks_) pass_on(block.text);
  blocks_.clear();
  pass_on(std::exchange(block_, "") + std::exchange(partial_, ""));
}

}  // namespace sluice
