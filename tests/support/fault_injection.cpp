// The hook of the programs in bin/faults: SLUICE_FAULT=site:rank:nth:action makes the nth pass of that rank, or of every rank
// (*), through that site fail; an nth of "3+" means the third and all later ones. Actions: throw (Error, kInternal), io (Error,
// kIo), exit0 (leave at once with 0), kill (SIGKILL), abort, crash (SIGSEGV), stop (SIGSTOP), spin (for ever), delay (2 s); and
// of the data at a site nan (its first float32) and flip (a bit of its first byte).
#include "base/error.hpp"
#include "base/fault.hpp"
#include "base/log.hpp"

#include <unistd.h>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace sluice {

/// Of external linkage, so that a stack has its name.
[[noreturn, gnu::noinline]] void spin_for_ever();
void spin_for_ever() {
  for (std::atomic<std::uint64_t> turns = 0;;) turns.fetch_add(1);
}

namespace {

constexpr int kEveryRank = -2;

struct Fault {
  std::string site;
  int rank = -1;
  int nth = 0;
  bool and_later = false;
  std::string action;
  int passes = 0;
};

int number(const std::string& text) { return static_cast<int>(std::strtol(text.c_str(), nullptr, 10)); }

Fault fault_from_environment() {
  const char* text = std::getenv("SLUICE_FAULT");
  std::vector<std::string> parts;
  std::istringstream in(text ? text : "");
  for (std::string part; std::getline(in, part, ':');) parts.push_back(part);
  if (parts.size() != 4) return {};
  const int rank = parts[1] == "*" ? kEveryRank : number(parts[1]);
  return {parts[0], rank, number(parts[2]), parts[2].ends_with('+'), parts[3]};
}

void spoil(const std::string& action, std::span<std::byte> data) {
  if (action == "nan" && data.size() >= sizeof(float)) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(data.data(), &nan, sizeof nan);
  }
  if (action == "flip" && !data.empty()) data.front() ^= std::byte{1};
}

void fail_where_asked(std::string_view site, int rank, std::span<std::byte> data) {
  static Fault fault = fault_from_environment();
  if (fault.site != site || (fault.rank != rank && fault.rank != kEveryRank)) return;
  ++fault.passes;
  if (fault.passes < fault.nth || (fault.passes > fault.nth && !fault.and_later)) return;
  log::warning("injected fault '{}' at {}", fault.action, site);
  if (fault.action == "throw") fail(ExitCode::kInternal, "injected fault at {}", site);
  if (fault.action == "io") fail(ExitCode::kIo, "injected read error at {}", site);
  if (fault.action == "exit0") _exit(0);
  if (fault.action == "kill") raise(SIGKILL);
  if (fault.action == "abort") std::abort();
  if (fault.action == "crash") raise(SIGSEGV);
  if (fault.action == "spin") spin_for_ever();
  spoil(fault.action, data);
  if (fault.action == "stop") raise(SIGSTOP);
  if (fault.action == "delay") std::this_thread::sleep_for(std::chrono::seconds(2));
}

[[maybe_unused]] const bool kIsSet = [] {
  fault_hook = fail_where_asked;
  return true;
}();

}  // namespace
}  // namespace sluice
