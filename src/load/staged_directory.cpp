#include "load/staged_directory.hpp"

#include "base/error.hpp"
#include "base/log.hpp"
#include "io/file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace sluice {
namespace {

namespace fs = std::filesystem;

void sync_directory(const fs::path& path) {
  const FileDescriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0 || ::fsync(directory.get()) != 0)
    fail(ExitCode::kIo, "cannot sync the directory {}: {}", path.string(), errno_text(errno));
}

/// What runs that were killed could not remove. Another run may still be writing there, so it is only named.
void name_leftovers(const fs::path& target) {
  const std::string prefix = fmt::format(".{}.partial-", target.filename().string());
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(target.parent_path(), error))
    if (entry.path().filename().string().starts_with(prefix))
      log::warning("{} is unfinished: unless another job is writing there, it can be removed",
                   entry.path().string());
}

/// "a/b/" and "a/b" name the same target; a name is needed to stage beside.
fs::path normal(const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

}  // namespace

StagedDirectory::StagedDirectory(fs::path target)
    : target_(normal(target)),
      staging_(target_.parent_path() /
               fmt::format(".{}.partial-{}", target_.filename().string(), ::getpid())) {
  if (!is_free(target_))
    fail(ExitCode::kUsage, "{} is already there; choose another name or remove it", target_.string());
  name_leftovers(target_);
  std::error_code error;
  fs::create_directories(target_.parent_path(), error);
  if (!error) fs::create_directory(staging_, error);
  if (error) fail(ExitCode::kIo, "cannot create {}: {}", staging_.string(), error.message());
}

bool StagedDirectory::is_free(const fs::path& target) {
  std::error_code error;
  return !fs::exists(target, error) || (fs::is_directory(target, error) && fs::is_empty(target, error));
}

StagedDirectory::~StagedDirectory() {
  std::error_code error;
  fs::remove_all(staging_, error);  // after commit() there is none
  if (error) log::warning("cannot remove {}: {}", staging_.string(), error.message());
}

void StagedDirectory::commit() {
  sync_directory(staging_);
  std::error_code error;
  fs::rename(staging_, target_, error);
  if (error)
    fail(ExitCode::kIo, "cannot rename {} to {}: {}", staging_.string(), target_.string(), error.message());
  sync_directory(target_.parent_path());
}

}  // namespace sluice
