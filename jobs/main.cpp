// Main function: the command line.

#include "comm/mpi/home.hpp"
#include "comm/outcome.hpp"
#include "job/commands/commands.hpp"
#include "process/console.hpp"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>

/// Leak check of the address sanitizer, which it would make after main; null in a build without it.
extern "C" void __lsan_do_leak_check() __attribute__((weak));  // NOLINT(bugprone-reserved-identifier)

namespace sluice {
namespace {

const FailureId kUsageId = "command.usage";

void parse(CLI::App& app, const Words& words) {
  app.clear();
  Words reversed(words.rbegin(), words.rend());
  app.parse(reversed);
}

/// Text for wrong arguments: the error, and the command whose help lists what is expected.
std::string usage_text(const CLI::App* app, const CLI::Error& error) {
  std::string command = "sluice";
  for (const CLI::App* at = app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    command += " " + at->get_name();
  }
  return fmt::format("{}\nRun `{} --help` to see what is expected.\n", with_id(error.what(), kUsageId),
                     command);
}

int print_help(const CLI::App& app) {
  std::cout << app.help() << std::flush;
  console::require_written();
  return 0;
}

int parse_and_act(Words words) {
  CLI::App app("Sluice loads and trains large mixture-of-experts models on machines where memory is short.",
               "sluice");
  app.set_version_flag("--version", versions_text);
  app.require_subcommand(1);
  app.failure_message(usage_text);
  CommandLine line{.app = app, .words = words, .rank_command = take_rank_command(words)};
  for (const auto add : {add_run,        add_launch,  add_check,      add_plan,          add_submit,
                         add_requeue,    add_inspect, add_synthesize, add_verify,        add_tokenize,
                         add_generate,   add_chat,    add_status,     add_top,           add_report,
                         add_checkpoint, add_metrics, add_trace,      add_host_commands, add_describe})
    add(line);
  if (words == Words{"help"}) return print_help(app);
  if (const std::string unknown = words.empty() ? "" : unknown_command(app, words.front());
      !unknown.empty()) {
    console::report(with_id(unknown, kUsageId));
    return static_cast<int>(ExitCode::kUsage);
  }
  try {
    if (!line.rank_command.empty())
      parse(app, line.rank_command);  // refuses once, here, what ranks would refuse
    parse(app, words);
  } catch (const CLI::ParseError& e) {
    const int status = app.exit(e) == 0 ? 0 : static_cast<int>(ExitCode::kUsage);
    std::cout.flush();
    console::require_written();
    return status;
  }
  const int status = line.action();
  // Results of a job are files; of any other command the output is the result.
  if (!app.got_subcommand("run") && !app.got_subcommand("launch")) console::require_written();
  return status;
}

int run(Words words) {
  try {
    return parse_and_act(std::move(words));
  } catch (...) {
    const Outcome failure = current_failure();
    console::report(fmt::format("sluice: {}", failure.text_with_id()));
    return static_cast<int>(failure.code);
  }
}

/// Ends the process without destructors of static objects, which are all of libraries: LibTorch's take 70 ms
/// per rank, and a driver's that crashes would turn a finished job into a failed one.
[[noreturn]] void end_process(int status) {
  if (__lsan_do_leak_check != nullptr) __lsan_do_leak_check();
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(status);
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  // A file that reaches the user's limit (ulimit -f) becomes a failed write with a name, not the end of the
  // process.
  std::signal(SIGXFSZ, SIG_IGN);
  // A parent that ignored the ends of its children would keep the kernel from reporting those of this
  // process.
  std::signal(SIGCHLD, SIG_DFL);
  sluice::ensure_home();
  sluice::end_process(sluice::run({argv + 1, argv + argc}));
}
