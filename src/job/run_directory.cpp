#include "job/run_directory.hpp"

#include "base/clock.hpp"
#include "base/log.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cerrno>
#include <system_error>

namespace sluice {
namespace fs = std::filesystem;
namespace {

void make_directories(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail(ExitCode::kIo, "cannot create the directory {}: {}", path.string(), error.message());
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// A rank without access to the run directory trains all the same: only its log is lost.
void begin_log(const fs::path& directory, int rank) {
  std::error_code error;
  fs::create_directories(directory, error);
  try {
    log::add_file((directory / fmt::format("rank-{:05}.log", rank)).string());
  } catch (const Error& e) {
    log::warning("{}", e.what());
  }
}

}  // namespace

RunDirectory::RunDirectory(const JobConfig& config, const Communicator& comm)
    : path_(config.job.output), is_root_(comm.rank() == 0), world_size_(comm.size()), started_(utc_now()) {
  if (is_root_) create(config);
  begin_log(path_ / "logs", comm.rank());
}

void RunDirectory::create(const JobConfig& config) {
  make_directories(path_);
  take_lock();
  make_room_for_results(config);
  write_text_file(path_ / "job.toml", to_toml(config));
  set_status("starting");
}

void RunDirectory::take_lock() {
  const fs::path file = path_ / "lock";
  lock_ = FileDescriptor(::open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644));
  if (lock_.get() < 0) fail(ExitCode::kIo, "cannot create {}: {}", file.string(), errno_text(errno));
  // The kernel drops this lock when the process ends, however it ends: a stale lock cannot happen.
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0)
    fail(ExitCode::kBadConfig,
         "job.output: another job is running in {} (it holds {}); give this one its own directory",
         path_.string(), file.string());
}

void RunDirectory::make_room_for_results(const JobConfig& config) const {
  for (const fs::path& name : {config.metrics.file, config.debug.dump}) {
    if (name.empty()) continue;
    make_directories(file(name).parent_path());  // now, not after hours of loading
    if (!fs::exists(file(name))) continue;
    if (!config.job.overwrite)
      fail(ExitCode::kBadConfig,
           "job.output: {} is left from an earlier run; give this run another job.output, or set "
           "job.overwrite = true to replace it",
           file(name).string());
    fs::remove(file(name));
  }
}

void RunDirectory::set_status(const std::string& state, std::int64_t step) {
  if (is_root_) write_status(state, step, nullptr);
}

void RunDirectory::set_failed(const Failure& failure) noexcept {
  try {
    // Rank 0 will be ended with the job, so the failing rank writes, if it sees the directory.
    if (!is_root_ && !fs::exists(path_ / "status.json")) return;
    write_status("failed", -1, &failure);
  } catch (const std::exception& e) {
    log::warning("status.json: {}", e.what());
  }
}

void RunDirectory::write_status(const std::string& state, std::int64_t step, const Failure* failure) {
  nlohmann::json status{{"state", state},      {"host", host_name()},
                        {"pid", getpid()},     {"world_size", world_size_},
                        {"started", started_}, {"updated", utc_now()}};
  if (step >= 0) status["step"] = step;
  if (failure) {
    status["exit_code"] = static_cast<int>(failure->code);
    status["message"] = failure->text;
  }
  write_text_file(path_ / "status.json",
                  status.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace sluice
