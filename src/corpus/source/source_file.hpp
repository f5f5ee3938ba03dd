// A file that is read once from front to back: a regular file, or the output of another program.
#pragma once

#include "io/file.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace sluice::corpus {

/// Whether a path means a stream, which can be read only once: a FIFO, or a pipe or terminal at standard
/// input.
[[nodiscard]] bool is_stream(const std::filesystem::path& path);

/// Error(kBadData), in words that follow `what`, if the path means a stream; `instead` says what to do.
void require_no_stream(const std::filesystem::path& path, const std::string& what,
                       const std::string& instead);

/// A source that is read once from front to end: a regular file, a pipe, or standard input.
class SourceFile {
 public:
  /// Opens a file or stream; never waits for a writer of a FIFO. Error(kBadData) if the file is missing, a
  /// directory or a disk; Error(kIo) if the system refuses.
  static SourceFile open(const std::filesystem::path& path);

  /// Size of a regular file in bytes; 0 for a stream, whose size is unknown.
  [[nodiscard]] std::int64_t size_bytes() const { return file_ ? file_->size_bytes() : 0; }
  /// Fills `out`; fewer bytes only at the end of the file. Waits for the writers of a stream, and meanwhile
  /// asks `stops` a few times per second: once that is true, the stream counts as ended. Error(kIo) if the
  /// system refuses.
  [[nodiscard]] std::size_t read(std::span<std::byte> out, const std::function<bool()>& stops);

 private:
  SourceFile(std::filesystem::path path, std::optional<InputFile> file, FileDescriptor stream)
      : path_(std::move(path)), file_(std::move(file)), stream_(std::move(stream)) {}
  [[nodiscard]] std::size_t read_stream(std::span<std::byte> out, const std::function<bool()>& stops);

  std::filesystem::path path_;
  std::optional<InputFile> file_;  ///< regular file; else stream_ is open
  FileDescriptor stream_;
  std::int64_t offset_ = 0;
};

}  // namespace sluice::corpus
