#include "io/path.hpp"

#include "base/error.hpp"

#include <cerrno>
#include <system_error>

namespace sluice {
namespace {

namespace fs = std::filesystem;

fs::file_type type_of(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::none)
    fail({ExitCode::kIo, "io.read"}, "cannot examine {}: {}", path.string(), errno_text(error.value()));
  return status.type();
}

}  // namespace

bool path_exists(const fs::path& path) { return type_of(path) != fs::file_type::not_found; }

bool directory_exists(const fs::path& path) { return type_of(path) == fs::file_type::directory; }

std::vector<fs::path> entries_in(const fs::path& directory) {
  std::vector<fs::path> entries;
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error))
    entries.push_back(entry->path());
  if (error && error.value() != ENOENT && error.value() != ENOTDIR)
    fail({ExitCode::kIo, "io.read"}, "cannot list {}: {}", directory.string(), errno_text(error.value()));
  return entries;
}

std::string dangling_link_text(const fs::path& path) {
  std::error_code error;
  fs::path part;
  for (const fs::path& name : path) {
    part /= name;
    if (!fs::is_symlink(part, error) || fs::exists(part, error)) continue;
    return fmt::format("{} is a link to {}, which is not there", part.string(),
                       fs::read_symlink(part, error).string());
  }
  return "";
}

void make_directories(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (!error) return;
  const std::string link = dangling_link_text(directory);
  fail(write_failure(error.value()), "cannot create the directory {}: {}", directory.string(),
       link.empty() ? errno_text(error.value()) : link);
}

}  // namespace sluice
