// A directory that appears complete or not at all.
#pragma once

#include <filesystem>

namespace sluice {

/// Collects files under a temporary name beside the target; commit() gives the directory its name. Without
/// commit() the destructor removes everything.
class StagedDirectory {
 public:
  /// Error(kUsage) if `target` exists and is not an empty directory; Error(kIo) if the system refuses.
  explicit StagedDirectory(std::filesystem::path target);
  StagedDirectory(const StagedDirectory&) = delete;
  StagedDirectory& operator=(const StagedDirectory&) = delete;
  ~StagedDirectory();

  /// Whether the name is free to be taken: nothing is there, or an empty directory.
  [[nodiscard]] static bool is_free(const std::filesystem::path& target);

  /// Where to write until commit().
  [[nodiscard]] const std::filesystem::path& path() const { return staging_; }
  /// Makes names durable and visible. Files must have been closed and synced.
  void commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path staging_;
};

}  // namespace sluice
