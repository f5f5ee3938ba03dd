// A directory that appears complete or not at all.
#pragma once

#include <filesystem>
#include <string_view>

namespace sluice {

/// ".NAME.`word`-RANDOM" in the directory of `target`: hidden, with 64 random bits, so that no other process,
/// here or on another machine, uses the same.
[[nodiscard]] std::filesystem::path name_beside(const std::filesystem::path& target, std::string_view word);

/// Treatment of a target whose name is taken, by more than an empty directory.
enum class IfTaken : bool {
  kRefuse,    ///< fail before anything is written
  kNextName,  ///< "name-1" or the first that is free: what is written cost too much to be thrown away
};

/// Collects files under a temporary name of its own making beside the target; commit() gives the directory
/// its name. Without commit() the destructor removes everything.
class StagedDirectory {
 public:
  /// Error(kUsage) if `target` is taken, unless another name will do; Error(kIo) if the system refuses.
  explicit StagedDirectory(const std::filesystem::path& target, IfTaken if_taken = IfTaken::kRefuse);
  StagedDirectory(const StagedDirectory&) = delete;
  StagedDirectory& operator=(const StagedDirectory&) = delete;
  ~StagedDirectory();

  /// Whether the name is free to be taken: nothing is there, or an empty directory.
  [[nodiscard]] static bool is_free(const std::filesystem::path& target);

  /// Directory to write to until commit().
  [[nodiscard]] const std::filesystem::path& path() const { return staging_; }
  /// Makes names durable and visible; returns the directory's. Files must have been closed and synced.
  /// Error(kIo) if the system refuses: then all stays under the temporary name, which the message tells.
  std::filesystem::path commit();

 private:
  [[nodiscard]] bool rename_to(const std::filesystem::path& name) const;

  std::filesystem::path target_;
  std::filesystem::path staging_;
  IfTaken if_taken_;
  bool is_complete_ = false;  ///< whether the directory was committed, and must stay
};

}  // namespace sluice
