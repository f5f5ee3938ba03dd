// The hook of the programs in bin/faults and of the suite runner: SLUICE_FAULT=site:rank:nth:action[,...]
// makes the nth pass of that rank, or of every rank (*), through that site fail; an nth of "3+" means the
// third and all later ones. Actions: throw (Error, kInternal), io (Error, kIo), exit0 (leave at once with 0),
// kill (SIGKILL), abort, crash (SIGSEGV), stop (SIGSTOP), spin (for ever), delay (2 s); copy (the run
// directory RUN = $SLUICE_FAULT_RUN as it lies then, which is what a kill would leave, to RUN-site-rank-nth);
// and of the data at a site nan (its first float32) and flip (a bit of its first byte).
#include "support/fault_injection.hpp"

#include "base/error.hpp"
#include "base/fault.hpp"
#include "base/log.hpp"

#include <fmt/format.h>

#include <unistd.h>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
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

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in{std::string(text)};
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

std::vector<Fault> parse(std::string_view text) {
  std::vector<Fault> faults;
  for (const std::string& each : split(text, ',')) {
    const std::vector<std::string> parts = split(each, ':');
    if (parts.size() != 4) continue;
    const int rank = parts[1] == "*" ? kEveryRank : number(parts[1]);
    faults.push_back({parts[0], rank, number(parts[2]), parts[2].ends_with('+'), parts[3]});
  }
  return faults;
}

struct Faults {
  std::vector<Fault> list;
  std::string run;  ///< the run directory that "copy" copies
};

std::string environment(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

Faults& faults() {
  static Faults faults{parse(environment("SLUICE_FAULT")), environment("SLUICE_FAULT_RUN")};
  return faults;
}

/// What other ranks write meanwhile may vanish while it is copied, as it may be missing after a kill.
void copy_run(const std::filesystem::path& run, const std::string& suffix) {
  namespace fs = std::filesystem;
  std::error_code vanished;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(run)) {
    const fs::path target = fs::path(run.string() + suffix) / fs::relative(entry.path(), run);
    if (entry.is_directory(vanished)) fs::create_directories(target);
    if (!entry.is_regular_file(vanished)) continue;
    fs::create_directories(target.parent_path());
    fs::copy_file(entry.path(), target, vanished);
  }
}

void spoil(const std::string& action, std::span<std::byte> data) {
  if (action == "nan" && data.size() >= sizeof(float)) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(data.data(), &nan, sizeof nan);
  }
  if (action == "flip" && !data.empty()) data.front() ^= std::byte{1};
}

void act(Fault& fault, std::string_view site, int rank, std::span<std::byte> data) {
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
  if (fault.action == "copy") copy_run(faults().run, fmt::format("-{}-{}-{}", site, rank, fault.passes));
  spoil(fault.action, data);
  if (fault.action == "stop") raise(SIGSTOP);
  if (fault.action == "delay") std::this_thread::sleep_for(std::chrono::seconds(2));
}

void fail_where_asked(std::string_view site, int rank, std::span<std::byte> data) {
  for (Fault& fault : faults().list) act(fault, site, rank, data);
}

[[maybe_unused]] const bool kIsSet = [] {
  fault_hook = fail_where_asked;
  return true;
}();

}  // namespace

void set_faults(std::string_view text, const std::string& run) { faults() = {parse(text), run}; }

}  // namespace sluice
