// Files accessed by position: open, size, exact reads and writes. Errors name the file, the offset and the
// cause.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

/// Owns a file descriptor; closes it without checking the result. Move-only.
class FileDescriptor {
 public:
  explicit FileDescriptor(int value) : value_(value) {}
  FileDescriptor(FileDescriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  [[nodiscard]] int get() const { return value_; }
  /// Gives up ownership without closing; returns the descriptor, -1 if there is none.
  [[nodiscard]] int release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

/// A regular file open for reading. Move-only; closes itself.
class InputFile {
 public:
  /// Opens a file, following links. Error(kBadData) if it is missing or not a regular file (FIFO, directory,
  /// device: never blocks on one); Error(kIo) if the system refuses.
  static InputFile open(const std::filesystem::path& path);

  /// Block size of direct reads in bytes: they transfer whole blocks, into memory aligned to it.
  static constexpr std::int64_t kBlockBytes = 4096;
  /// Opens a file for direct reads, past the page cache; nothing if the file system has no direct reads, or
  /// only in larger blocks.
  static std::optional<InputFile> open_direct(const std::filesystem::path& path);

  [[nodiscard]] std::int64_t size_bytes() const { return size_bytes_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// Fills `out` from byte `offset` on. Error(kIo) on a system error; Error(kBadData) if the file ends first
  /// (it shrank).
  void read_at(std::int64_t offset, std::span<std::byte> out) const;
  /// Fills `out` from byte `offset` on, as far as the file goes, which must be at least `needed` bytes. For
  /// direct reads in whole blocks, the last of which may reach beyond the end of the file.
  void read_at_least(std::int64_t needed, std::int64_t offset, std::span<std::byte> out) const;

  /// Hints to the kernel that the file is read front to back (it reads ahead further), or at random (it does
  /// not read ahead). Hints never fail.
  void advise_sequential() const;
  void advise_random() const;
  /// Hint that lets the page cache drop bytes [offset, offset + bytes). Never fails.
  void drop_cache(std::int64_t offset, std::int64_t bytes) const;
  /// Whether the page cache holds the byte at `offset`; false if the kernel cannot tell.
  [[nodiscard]] bool is_cached(std::int64_t offset) const;
  /// Bytes of the file in the page cache, in whole pages; nothing if the kernel does not tell, as for files
  /// that the user neither owns nor may write.
  [[nodiscard]] std::optional<std::int64_t> cached_bytes() const;

 private:
  InputFile(std::filesystem::path path, FileDescriptor descriptor, std::int64_t size_bytes);
  std::filesystem::path path_;
  FileDescriptor descriptor_;
  std::int64_t size_bytes_ = 0;
};

/// A file that is written by position. Move-only. Every call throws Error(kIo) if the system refuses.
class OutputFile {
 public:
  /// Creates a file, which must not exist.
  static OutputFile create(const std::filesystem::path& path);
  /// Creates a file for direct writes of whole blocks of InputFile::kBlockBytes bytes from memory aligned to
  /// them; nothing, and no file, if the file system has no direct writes.
  static std::optional<OutputFile> create_direct(const std::filesystem::path& path);
  /// Opens a file that another rank has created.
  static OutputFile open(const std::filesystem::path& path);
  OutputFile(OutputFile&& other) noexcept = default;
  OutputFile& operator=(OutputFile&& other) noexcept = default;
  ~OutputFile();  ///< closes without fsync; logs a failure

  void write_at(std::int64_t offset, std::span<const std::byte> data);
  /// Sets the length of the file in bytes; new bytes are holes that read as zero.
  void resize(std::int64_t bytes);
  /// Starts writing bytes [offset, offset + bytes) to disk, and returns.
  void start_writeback(std::int64_t offset, std::int64_t bytes);
  /// Waits until bytes [offset, offset + bytes) are on disk, and lets the page cache drop them.
  void drop_written(std::int64_t offset, std::int64_t bytes);
  /// Writes the file to disk (fsync) and closes it.
  void close();

 private:
  OutputFile(std::filesystem::path path, FileDescriptor descriptor);
  void write_back(std::int64_t offset, std::int64_t bytes, unsigned flags);
  std::filesystem::path path_;
  FileDescriptor descriptor_;
};

/// Makes the names in a directory durable. Error(kIo) if that fails.
void sync_directory(const std::filesystem::path& path);

/// Content of a small text file. Error(kBadData) if it is missing or longer than `limit_bytes`.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path, std::int64_t limit_bytes);

/// How far written bytes are when a call returns: a crash of the machine loses those that only the kernel
/// has.
enum class Durability : std::uint8_t { kKernel, kDisk };

/// Writes a small file so that readers see the old or the new content, never a mixture (temporary name, fsync
/// with kDisk, rename).
void write_text_file(const std::filesystem::path& path, std::string_view text,
                     Durability durability = Durability::kDisk);

}  // namespace sluice
