#include "io/trial_process.hpp"

#include "base/byte_stream.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "io/child_process.hpp"
#include "io/file.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <new>
#include <optional>
#include <string_view>

namespace sluice {
namespace {

struct Finding : Cause {
  std::string text{};
};

Finding finding_of(const std::function<void()>& look) {
  try {
    look();
  } catch (const Error& error) {
    return {error.cause(), error.what()};
  } catch (const std::bad_alloc&) {
    return {ExitCode::kBadData, ""};
  } catch (const std::exception& error) {
    return {ExitCode::kInternal, error.what()};
  }
  return {};
}

std::int64_t address_space_bytes() {
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

void limit(int resource, rlim_t most) {
  rlimit found{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &found) != 0) return;
  found.rlim_cur = std::min(found.rlim_cur, most);
  setrlimit(static_cast<__rlimit_resource>(resource), &found);
}

/// Sets up the child: sets its limits, and removes our signal handlers, which would report its end.
void become_a_trial(const TrialLimits& limits, std::int64_t address_space) {
  sigset_t ending;
  ::sigemptyset(&ending);
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM, SIGXCPU}) {
    std::signal(number, SIG_DFL);
    ::sigaddset(&ending, number);
  }
  ::sigprocmask(SIG_UNBLOCK, &ending, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, static_cast<rlim_t>(limits.seconds) + 1);
  limit(RLIMIT_AS, static_cast<rlim_t>(address_space + limits.extra_bytes));
}

[[noreturn]] void run_child(int pipe, const std::function<void()>& look) {
  const Finding finding = finding_of(look);
  ByteWriter out;
  out.number(static_cast<std::int64_t>(finding.code));
  out.text(finding.id.text());
  out.text(finding.text);
  std::string_view rest = out.bytes();
  while (!rest.empty()) {
    const ssize_t put = ::write(pipe, rest.data(), rest.size());
    if (put <= 0) break;
    rest.remove_prefix(static_cast<std::size_t>(put));
  }
  ::_exit(0);
}

std::string all_of(int pipe) {
  std::string text;
  std::array<char, 4096> room{};
  for (;;) {
    const ssize_t got = ::read(pipe, room.data(), room.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(room.data(), static_cast<std::size_t>(got));
  }
}

[[noreturn]] void refuse(const std::string& file, const std::string& found) {
  fail({ExitCode::kBadData, "io.damaged"},
       "{} is damaged or malicious: the library that reads it {}. It was tried in a process of its own", file,
       found);
}

/// Whether a signal comes from outside: no library ends its process by it, whatever it reads.
bool is_from_outside(int signal_number) {
  constexpr std::array kSignals{SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  return std::ranges::find(kSignals, signal_number) != kSignals.end();
}

}  // namespace

void try_in_child(const std::string& file, const std::function<void()>& look, const TrialLimits& limits) {
  auto [from_child, to_parent] = make_pipe();
  const std::int64_t address_space = address_space_bytes();
  const pid_t forked = ::fork();
  if (forked < 0)
    fail({ExitCode::kTooLittle, "io.process"}, "cannot examine {}: no process: {}", file, errno_text(errno));
  if (forked == 0) {
    become_a_trial(limits, address_space);
    run_child(to_parent.get(), look);
  }
  ChildProcess child(forked);
  to_parent = FileDescriptor(-1);
  const std::optional<int> status = child.wait_until(Deadline(limits.seconds));
  if (!status) refuse(file, fmt::format("did not come to an end within {:g} s", limits.seconds));
  if (WIFSIGNALED(*status) && is_from_outside(WTERMSIG(*status)))
    fail({ExitCode::kTooLittle, "io.process"}, "the process that examined {} was ended from outside by {}{}",
         file, ::strsignal(WTERMSIG(*status)),
         WTERMSIG(*status) == SIGKILL ? ", as the kernel does where memory runs out" : "");
  if (WIFSIGNALED(*status)) refuse(file, fmt::format("crashed ({})", ::strsignal(WTERMSIG(*status))));
  const std::string answer = all_of(from_child.get());
  if (answer.empty()) refuse(file, "ended the process");
  ByteReader in(answer);
  const auto code = static_cast<ExitCode>(in.number());
  const FailureId id(in.text());
  const std::string text = in.text();
  if (code == ExitCode::kDone) return;
  if (text.empty()) refuse(file, fmt::format("wanted more than {} MiB of memory", limits.extra_bytes >> 20));
  throw Error({code, id}, text);
}

}  // namespace sluice
