#include "io/staged_directory.hpp"

#include "base/error.hpp"
#include "base/log.hpp"
#include "io/file.hpp"
#include "io/path.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <random>
#include <string>
#include <system_error>

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// Names directories that killed runs could not remove; removes none, because another run may still be
/// writing there.
void name_leftovers(const fs::path& target) {
  const std::string prefix = fmt::format(".{}.partial-", target.filename().string());
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(target.parent_path(), error))
    if (entry.path().filename().string().starts_with(prefix))
      log::warning("{} is unfinished: unless another job is writing there, it can be removed",
                   entry.path().string());
}

/// Creates a new directory, ".NAME.`word`-RANDOM", beside a target. Fails if it exists: then it belongs to
/// another process, whatever its number.
fs::path create_directory_beside(const fs::path& target, std::string_view word) {
  for (;;) {
    const fs::path path = name_beside(target, word);
    if (::mkdir(path.c_str(), 0777) == 0) return path;
    if (errno != EEXIST) fail(write_failure(errno), "cannot create {}: {}", path.string(), errno_text(errno));
  }
}

/// Normal form of a target, "a/b" for "a/b/", since a name is needed to stage beside it.
fs::path normal(const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

}  // namespace

fs::path name_beside(const fs::path& target, std::string_view word) {
  std::random_device random;
  return target.parent_path() /
         fmt::format(".{}.{}-{:08x}{:08x}", target.filename().string(), word, random(), random());
}

StagedDirectory::StagedDirectory(const fs::path& target, IfTaken if_taken, Leftovers leftovers)
    : target_(normal(target)), if_taken_(if_taken) {
  if (const std::string link = dangling_link_text(target_); !link.empty() && if_taken_ == IfTaken::kRefuse)
    fail({ExitCode::kUsage, "io.exists"}, "{} cannot be made: {}; choose another name or remove the link",
         target_.string(), link);
  if (if_taken_ == IfTaken::kRefuse && !is_free(target_))
    fail({ExitCode::kUsage, "io.exists"}, "{} is already there; choose another name or remove it",
         target_.string());
  if (leftovers == Leftovers::kAreNamed) name_leftovers(target_);
  make_directories(target_.parent_path());
  staging_ = create_directory_beside(target_, "partial");
}

bool StagedDirectory::is_free(const fs::path& target) {
  std::error_code error;
  const fs::file_type type = fs::symlink_status(target, error).type();
  if (type == fs::file_type::none)
    fail({ExitCode::kIo, "io.read"}, "cannot examine {}: {}", target.string(), errno_text(error.value()));
  return type == fs::file_type::not_found || (directory_exists(target) && entries_in(target).empty());
}

StagedDirectory::~StagedDirectory() {
  if (is_complete_) return;
  std::error_code error;
  fs::remove_all(staging_, error);
  if (error) log::warning("cannot remove {}: {}", staging_.string(), error.message());
}

fs::path StagedDirectory::commit() {
  sync_directory(staging_);
  is_complete_ = true;
  fs::path name = target_;
  for (int next = 1; !rename_to(name); ++next) name = fmt::format("{}-{}", target_.string(), next);
  if (name != target_)
    log::warning("{} has been taken by another program meanwhile: the result is in {}", target_.string(),
                 name.string());
  sync_directory(target_.parent_path());
  return name;
}

/// Renames the directory; false if the name is taken and another one may be tried.
bool StagedDirectory::rename_to(const fs::path& name) const {
  std::error_code error;
  fs::rename(staging_, name, error);
  if (!error) return true;
  if (if_taken_ == IfTaken::kNextName && !is_free(name)) return false;
  fail(write_failure(error.value()), "cannot rename {} to {}: {}; the result stays under its first name",
       staging_.string(), name.string(), error.message());
}

}  // namespace sluice
