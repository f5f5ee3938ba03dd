#include "comm/failure/crash_report.hpp"

#include "comm/position.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace sluice {
namespace {

constexpr std::array kCrashes{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr unsigned kCrashSeconds = 5;  // seconds, since a full pipe may never take the text
constexpr std::size_t kStackBytes = std::size_t{64} * 1024;

std::atomic<int> own_rank{-1}, rank_count{0};
std::atomic<NodeFlags*> node_flags{nullptr};
std::atomic<bool> is_crashing{false};

void print_block(int number) {
  std::array<char, 160> where{};
  position::write_short(where.data(), where.size());
  std::array<char, 400> text{};
  const int length =
      std::snprintf(text.data(), text.size(),
                    "sluice: rank %d of %d crashed with SIG%s in %s, so the job ends. This is a fault of the "
                    "program or of the machine. Its stack:\n",
                    own_rank.load(), rank_count.load(), ::sigabbrev_np(number), where.data());
  const auto bytes = std::min(static_cast<std::size_t>(std::max(length, 0)), text.size() - 1);
  if (::write(STDERR_FILENO, text.data(), bytes) < 0) return;
  std::array<void*, 64> frames{};
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  backtrace_symbols_fd(frames.data(), count, STDERR_FILENO);
}

void on_crash(int number) {
  if (!is_crashing.exchange(true)) {
    alarm(kCrashSeconds);
    if (NodeFlags* const flags = node_flags) {
      flags->crashed = 256 * (own_rank + 1) + number;
      flags->reported = 1;
    }
    print_block(number);
  }
  ::signal(number, SIG_DFL);
  ::raise(number);  // the signal takes effect when this handler returns
}

/// Whether a signal's handler may be replaced: the default handler, or UCX's, which Open MPI may bring along
/// and which prints a stack without a rank. Handlers of sanitizers stay.
bool is_replaceable(const struct sigaction& action) {
  if (action.sa_handler == SIG_DFL) return true;
  Dl_info owner{};
  return dladdr(reinterpret_cast<const void*>(action.sa_handler), &owner) != 0 &&
         owner.dli_fname != nullptr &&
         std::string_view(owner.dli_fname).find("libucs.so") != std::string_view::npos;
}

}  // namespace

void install_crash_report() {
  static std::array<std::byte, kStackBytes> stack;  // the thread that crashes may have no stack left
  stack_t alternative{};
  alternative.ss_sp = stack.data();
  alternative.ss_size = stack.size();
  sigaltstack(&alternative, nullptr);
  std::array<void*, 1> frame{};
  backtrace(frame.data(), 1);  // loads libraries now that a backtrace would load in the handler
  for (const int number : kCrashes) {
    struct sigaction action {};
    if (sigaction(number, nullptr, &action) != 0 || !is_replaceable(action)) continue;
    action = {};
    action.sa_handler = on_crash;
    action.sa_flags = SA_ONSTACK;
    sigaction(number, &action, nullptr);
  }
}

void set_crash_rank(int rank, int size, NodeFlags* flags) {
  own_rank = rank;
  rank_count = size;
  node_flags = flags;
}

}  // namespace sluice
