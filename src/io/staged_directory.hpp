// A directory that appears complete or not at all.
#pragma once

#include <filesystem>
#include <string_view>

namespace sluice {

/// Hidden name in the directory of `target`, ".NAME.`word`-RANDOM", with 64 random bits, so that no other
/// process on any machine uses the same.
[[nodiscard]] std::filesystem::path name_beside(const std::filesystem::path& target, std::string_view word);

/// What to do if the target's name is taken by more than an empty directory.
enum class IfTaken : bool {
  kRefuse,    ///< fail before anything is written
  kNextName,  ///< use "name-1" or the first free name, because the result cost too much to be thrown away
};

/// Whether unfinished directories of earlier runs beside the target are named in a warning. A trial is no time for
/// that: other ranks of the job make theirs meanwhile, and the result that follows names what is left.
enum class Leftovers : bool { kAreNamed, kAreNoMatter };

/// Collects files in a temporary directory beside the target; commit() gives the directory its name. Without
/// commit() the destructor removes everything.
class StagedDirectory {
 public:
  /// Creates the temporary directory. Error(kUsage) if `target` is taken, unless another name may be used;
  /// Error(kIo) if the system refuses.
  explicit StagedDirectory(const std::filesystem::path& target, IfTaken if_taken = IfTaken::kRefuse,
                           Leftovers leftovers = Leftovers::kAreNamed);
  StagedDirectory(const StagedDirectory&) = delete;
  StagedDirectory& operator=(const StagedDirectory&) = delete;
  ~StagedDirectory();

  /// Whether a name is free: nothing exists there, or an empty directory.
  [[nodiscard]] static bool is_free(const std::filesystem::path& target);

  /// Directory to write to until commit().
  [[nodiscard]] const std::filesystem::path& path() const { return staging_; }
  /// Syncs the directory and gives it its name, which is returned. Files must have been closed and synced.
  /// Error(kIo) if the system refuses: then everything stays under the temporary name, which the message
  /// tells.
  std::filesystem::path commit();

 private:
  [[nodiscard]] bool rename_to(const std::filesystem::path& name) const;

  std::filesystem::path target_;
  std::filesystem::path staging_;
  IfTaken if_taken_;
  bool is_complete_ = false;  ///< whether the directory was committed, so that it must stay
};

}  // namespace sluice
