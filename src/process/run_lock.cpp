#include "process/run_lock.hpp"

#include "base/error.hpp"
#include "base/log.hpp"
#include "process/host_name.hpp"
#include "process/status_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <ctime>
#include <fstream>

namespace sluice {
namespace {

namespace fs = std::filesystem;

enum class LockState { kFree, kHeld, kNone };

struct LockAnswer {
  LockState state;
  int error_number = 0;  ///< errno of flock() with LockState::kNone, else 0
};

/// Answer of the file system to flock(). EWOULDBLOCK alone means that another process holds the lock; other
/// errors mean that there are no locks, as on NFS without lockd (ENOLCK), or on FUSE and parallel file
/// systems that were mounted without them (ENOSYS, EOPNOTSUPP).
LockAnswer try_lock(int file, int kind) {
  for (;;) {
    if (::flock(file, kind | LOCK_NB) == 0) return {LockState::kFree};
    if (errno == EWOULDBLOCK) return {LockState::kHeld};
    if (errno != EINTR) return {LockState::kNone, errno};
  }
}

/// Whether the process of a status exists on this machine. Another program may have its number by now.
bool process_exists(const nlohmann::json& status) {
  const auto pid = status.find("pid");
  if (pid == status.end() || !pid->is_number_integer()) return false;
  std::string name;
  std::getline(std::ifstream(fmt::format("/proc/{}/comm", pid->get<std::int64_t>())), name);
  std::string own;
  std::getline(std::ifstream("/proc/self/comm"), own);
  return !name.empty() && (name.starts_with("sluice") || name == own);
}

/// Whether a time, as utc_now() writes it, is recent.
bool is_fresh(const std::string& text) {
  // Seconds that allow for clocks that differ and disks that are slow.
  constexpr double kSeconds = 6 * kHeartbeatSeconds;
  std::tm parts{};
  if (::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts) == nullptr) return false;
  return std::difftime(std::time(nullptr), ::timegm(&parts)) < kSeconds;
}

bool is_on_this_machine(const nlohmann::json& status) { return text_in(status, "host") == host_name(); }

[[noreturn]] void refuse_second_job(const fs::path& directory, const std::string& holder) {
  fail({ExitCode::kBadConfig, "job.running"},
       "job.output: another job is running in {} ({}); give this one its own directory", directory.string(),
       holder);
}

}  // namespace

RunLock::RunLock(const fs::path& directory) {
  const fs::path path = directory / "lock";
  file_ = FileDescriptor(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644));
  if (file_.get() < 0) fail(write_failure(errno), "cannot create {}: {}", path.string(), errno_text(errno));
  const LockAnswer answer = try_lock(file_.get(), LOCK_EX);
  if (answer.state == LockState::kHeld)
    refuse_second_job(directory, fmt::format("it holds {}", path.string()));
  if (answer.state == LockState::kFree) return;
  refusal_ = errno_text(answer.error_number);
  const nlohmann::json status = status_if_readable(directory);
  const bool has_ended = status.empty() || status.contains("exit_code");
  if (!has_ended && is_on_this_machine(status) && process_exists(status))
    refuse_second_job(directory,
                      fmt::format("process {} of this machine, by status.json", status["pid"].dump()));
  log::warning(
      "{} cannot be locked: {}. Nothing keeps another job out of this directory; sluice status tells by "
      "host, process and age of status.json whether the job runs",
      path.string(), refusal_);
}

bool is_running(const fs::path& directory, const nlohmann::json& status) {
  const bool has_lock = status.value("locked", nlohmann::json(true)) != nlohmann::json(false);
  const FileDescriptor file(::open((directory / "lock").c_str(), O_RDONLY | O_CLOEXEC));
  if (has_lock && file.get() < 0 && errno == ENOENT) return false;
  if (has_lock && file.get() >= 0) {
    const LockState state = try_lock(file.get(), LOCK_SH).state;
    if (state != LockState::kNone) return state == LockState::kHeld;
  }
  if (is_on_this_machine(status)) return process_exists(status);
  return has_lock || is_fresh(text_in(status, "updated"));
}

}  // namespace sluice
