// What a program asks the kernel to bring to the disk, and when, as seen from a name that a commit makes.
// For one source file of a program: its definition of fsync(2) comes before the C library's.
#pragma once

#include <fmt/format.h>

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <filesystem>
#include <mutex>
#include <string>
#include <utility>

namespace sluice::test {

/// The files that are synced while it lives, each with the length that it has then. One at a time.
class SyncedFiles {
 public:
  /// Tells calls before `committed` is there from those after it.
  explicit SyncedFiles(std::filesystem::path committed) : committed_(std::move(committed)) { newest_ = this; }
  ~SyncedFiles() { newest_ = nullptr; }
  SyncedFiles(const SyncedFiles&) = delete;
  SyncedFiles& operator=(const SyncedFiles&) = delete;

  /// A file as sets of them hold it: the same under another name, and another one once it has grown.
  static std::string name_of(const struct stat& status) {
    return S_ISDIR(status.st_mode) ? fmt::format("directory {};", status.st_ino)
                                   : fmt::format("file {} of {} bytes;", status.st_ino, status.st_size);
  }
  static std::string name_of(const std::filesystem::path& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? name_of(status) : path.string() + " is not there";
  }

  static void add(int descriptor) {
    struct stat status {};
    if (newest_ == nullptr || ::fstat(descriptor, &status) != 0) return;
    const std::lock_guard lock(newest_->mutex_);
    (std::filesystem::exists(newest_->committed_) ? newest_->after_ : newest_->before_) += name_of(status);
  }
  [[nodiscard]] std::string before() const { return before_; }
  [[nodiscard]] std::string after() const { return after_; }

 private:
  inline static SyncedFiles* newest_ = nullptr;
  std::filesystem::path committed_;
  std::mutex mutex_;
  std::string before_, after_;
};

}  // namespace sluice::test

extern "C" int fsync(int descriptor) {
  const long result = syscall(SYS_fsync, descriptor);
  if (result == 0) sluice::test::SyncedFiles::add(descriptor);
  return static_cast<int>(result);
}
