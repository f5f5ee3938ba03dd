#include "job/prepare/target_place.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "checkpoint/step_directory.hpp"
#include "comm/run_together.hpp"
#include "io/file.hpp"
#include "io/path.hpp"
#include "io/staged_directory.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <system_error>

namespace sluice {
namespace fs = std::filesystem;

fs::path existing_part(const fs::path& target) {
  std::error_code error;
  fs::path part = fs::absolute(target).lexically_normal();
  while (!fs::exists(part, error) && part != part.parent_path()) part = part.parent_path();
  return part;
}

std::string files_seen(const JobConfig& config) {
  std::string text;
  for (const fs::path& path : {config.job.output, checkpoint_directory(config), config.model.path,
                               config.model.adapter, config.lora.start, config.memory.offload_path}) {
    struct stat found {};
    if (path.empty() || ::stat(existing_part(path).c_str(), &found) != 0) continue;
    text += fmt::format("{}:{} ", found.st_dev, found.st_ino);
  }
  return text;
}

void require_creatable(std::string_view key, const fs::path& target) {
  if (const std::string link = dangling_link_text(target); !link.empty())
    fail({ExitCode::kIo, "job.not_writable"}, "{}: {} cannot be created: {}", key, target.string(), link);
  const fs::path place = existing_part(fs::absolute(target).lexically_normal().parent_path());
  std::error_code error;
  if (!fs::is_directory(place, error))
    fail({ExitCode::kIo, "job.not_writable"}, "{}: {} cannot be created: {} is not a directory", key,
         target.string(), place.string());
  if (::access(place.c_str(), W_OK | X_OK) != 0)
    fail({ExitCode::kIo, "job.not_writable"}, "{}: {} cannot be created in {}: {}", key, target.string(),
         place.string(), errno_text(errno));
}

void require_room(std::string_view key, std::string_view what, const fs::path& directory, std::int64_t bytes,
                  std::string_view advice) {
  std::error_code error;
  const fs::space_info space = fs::space(existing_part(directory), error);
  if (error)
    fail({ExitCode::kIo, "io.read"}, "{}: cannot examine {}: {}", key, directory.string(), error.message());
  if (space.available >= static_cast<std::uintmax_t>(bytes)) return;
  fail({ExitCode::kIo, "job.disk_room"}, "{}: {} {} in {}, whose file system has {} free. {}", key, what,
       format_bytes(bytes), directory.string(), format_bytes(static_cast<std::int64_t>(space.available)),
       advice);
}

fs::path offload_directory(const JobConfig& config) {
  return config.memory.offload_path.empty() ? config.job.output : config.memory.offload_path;
}

void require_offload_room(const JobConfig& config, std::int64_t bytes) {
  require_room("memory.offload_path", "the ranks on this machine need", offload_directory(config), bytes,
               "Choose another disk, or let a larger memory.limit keep more in memory");
}

void try_to_create_beside(std::string_view key, const fs::path& target) {
  const fs::path trial = fmt::format("{}.trial-{}", target.string(), ::getpid());
  try {
    OutputFile::create(trial).close();
  } catch (const Error& error) {
    fail(error.cause(), "{}: nothing can be written to {}: {}", key, target.parent_path().string(),
         error.what());
  }
  std::error_code ignored;
  fs::remove(trial, ignored);
}

void require_shared_directory(Communicator& comm, std::string_view key, const fs::path& target,
                              SeenBy seen_by) {
  std::optional<StagedDirectory> trial;
  run_together(comm, [&] {
    if (comm.rank() == 0) trial.emplace(target, IfTaken::kRefuse, Leftovers::kAreNoMatter);
  });
  const fs::path directory = comm.broadcast_text(trial ? trial->path().string() : "", 0);
  run_together(comm, [&] {
    if (seen_by == SeenBy::kAnyRanks && !path_exists(directory)) return;
    const fs::path file = directory / fmt::format("rank-{}", comm.rank());
    try {
      OutputFile::create(file).close();
    } catch (const Error& error) {
      fail(error.cause(), "{}: {}. Every rank writes its part there, so all must see what rank 0 made", key,
           error.what());
    }
  });
}

}  // namespace sluice
