#include "comm/failure/thread_stack.hpp"

#include "base/clock.hpp"

#include <cxxabi.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <thread>

namespace sluice {
namespace {

// Most frames, and frames of the handler and of the kernel below it, which are left out.
constexpr int kMostFrames = 64, kOwnFrames = 2;
constexpr double kAnswerSeconds = 1;

std::array<void*, kMostFrames> stack_frames;
std::atomic<int> stack_depth{-1};

int stack_signal() { return SIGRTMIN + 2; }

void take_frames(int) { stack_depth = backtrace(stack_frames.data(), kMostFrames); }

/// A stack frame with the name as it is in the code: "sluice-train(_ZN6sluice5TrainEv+0x12) [0x55...]".
std::string readable(const std::string& symbol) {
  const std::size_t open = symbol.find('('), plus = symbol.find('+', open);
  if (open == std::string::npos || plus == std::string::npos || plus == open + 1) return symbol;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(symbol.substr(open + 1, plus - open - 1).c_str(), nullptr, nullptr, &status),
      &std::free);
  return status == 0 ? symbol.substr(0, open + 1) + name.get() + symbol.substr(plus) : symbol;
}

}  // namespace

ThreadStack::ThreadStack() : thread_(pthread_self()) {
  backtrace(stack_frames.data(), 1);  // loads libraries now that a signal handler must not load
  struct sigaction action {};
  action.sa_handler = take_frames;
  action.sa_flags = SA_RESTART;
  sigaction(stack_signal(), &action, nullptr);
}

std::vector<std::string> ThreadStack::lines() const {
  stack_depth = -1;
  if (pthread_kill(thread_, stack_signal()) != 0) return {};
  const Stopwatch waited;
  while (stack_depth < 0 && waited.seconds() < kAnswerSeconds)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const int count = stack_depth;
  if (count < 0) return {};
  const std::unique_ptr<char*, decltype(&std::free)> symbols(backtrace_symbols(stack_frames.data(), count),
                                                             &std::free);
  std::vector<std::string> lines;
  for (int i = std::min(kOwnFrames, count); symbols && i < count; ++i)
    lines.push_back(readable(symbols.get()[i]));
  return lines;
}

}  // namespace sluice
