#include "job/launch/launcher.hpp"

#include "base/error.hpp"
#include "job/signal_watch.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace sluice {
namespace {

[[noreturn]] void refuse_launcher(const std::string& cause) {
  fail(ExitCode::kUsage, "{}; it must be in PATH, or named by the variable MPIRUN", cause);
}

}  // namespace

std::vector<std::string> mpirun_words(int ranks, const std::vector<LaunchHost>& hosts,
                                      const std::vector<std::string>& options) {
  const char* launcher = std::getenv("MPIRUN");
  std::vector<std::string> words{launcher == nullptr ? "mpirun" : launcher, "-np", fmt::format("{}", ranks)};
  if (!hosts.empty()) {
    words.insert(words.end(), {"--host", hosts_text(hosts)});
    const auto binds = [](const std::string& word) { return word == "--bind-to" || word == "-bind-to"; };
    if (std::ranges::none_of(options, binds)) words.insert(words.end(), {"--bind-to", "none"});
  }
  words.insert(words.end(), options.begin(), options.end());
  return words;
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

}  // namespace sluice
