#include "corpus/staged_token_file.hpp"

#include "base/error.hpp"
#include "io/file.hpp"
#include "io/path.hpp"
#include "io/staged_directory.hpp"

#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace sluice::corpus {
namespace fs = std::filesystem;

StagedTokenFile::StagedTokenFile(const fs::path& target) : target_(target) {
  if (target.filename().empty()) fail(ExitCode::kUsage, "'{}' cannot be the name of a file", target.string());
  if (const std::string link = dangling_link_text(target); !link.empty())
    fail(ExitCode::kUsage, "{}; remove the link, or choose another name", link);
  if (fs::exists(fs::symlink_status(target)))
    fail({ExitCode::kUsage, "io.exists"}, "{} is there already; remove it, or choose another name",
         target.string());
  staging_ = name_beside(target, "tokens");
  writer_.emplace(staging_, target.string());
}

StagedTokenFile::~StagedTokenFile() {
  writer_.reset();
  std::error_code ignored;
  if (!staging_.empty()) fs::remove(staging_, ignored);
}

void StagedTokenFile::commit() {
  // A link replaces nothing, unlike a rename.
  if (::link(staging_.c_str(), target_.c_str()) != 0)
    fail(write_failure(errno), "cannot rename the finished token file to {}: {}", target_.string(),
         errno_text(errno));
  fs::remove(staging_);
  staging_.clear();
  sync_directory(target_.has_parent_path() ? target_.parent_path() : ".");
}

}  // namespace sluice::corpus
