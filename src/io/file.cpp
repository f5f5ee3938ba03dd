#include "io/file.hpp"

#include "base/checked.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/round.hpp"
#include "io/path.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

namespace sluice {
namespace {

/// Most bytes per call: Linux moves at most 0x7ffff000 bytes, and smaller pieces let a signal through now and
/// then.
constexpr std::size_t kLargestTransfer = std::size_t{1} << 30;
constexpr int kReadOnly = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

/// Whether an error is a fault of the path (the user's input), and not of the system.
bool is_bad_path(int error_number) {
  constexpr std::array kBadPath{ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG};
  return std::find(kBadPath.begin(), kBadPath.end(), error_number) != kBadPath.end();
}

void sync_directory_of(const std::filesystem::path& path) {
  sync_directory(path.has_parent_path() ? path.parent_path() : ".");
}

/// Whether mincore() tells the truth: only for files that the process owns or may write; all pages of other
/// files count as resident (Linux 5.2, can_do_mincore).
bool tells_residency(const std::filesystem::path& path, int descriptor) {
  struct stat status {};
  const uid_t user = ::geteuid();
  return user == 0 || (::fstat(descriptor, &status) == 0 && status.st_uid == user) ||
         ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0;
}

}  // namespace

void sync_directory(const std::filesystem::path& path) {
  const FileDescriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0 || ::fsync(directory.get()) != 0)
    fail(write_failure(errno), "cannot write the directory {} to disk: {}", path.string(), errno_text(errno));
}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(value_, other.value_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (value_ >= 0) ::close(value_);
}

InputFile::InputFile(std::filesystem::path path, FileDescriptor descriptor, std::int64_t size_bytes)
    : path_(std::move(path)), descriptor_(std::move(descriptor)), size_bytes_(size_bytes) {}

InputFile InputFile::open(const std::filesystem::path& path) {
  // With O_NONBLOCK, opening a FIFO that nobody writes to does not wait for ever. Regular files ignore it.
  FileDescriptor descriptor(::open(path.c_str(), kReadOnly));
  if (descriptor.get() < 0) {
    const int error_number = errno;
    if (error_number == ENXIO)
      fail({ExitCode::kBadData, "io.not_a_file"}, "{} is not a regular file", path.string());
    const Cause cause = is_bad_path(error_number) ? Cause(ExitCode::kBadData, "io.not_found")
                                                  : Cause(ExitCode::kIo, "io.read");
    fail(cause, "cannot open {}: {}", path.string(), errno_text(error_number));
  }
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0)
    fail({ExitCode::kIo, "io.read"}, "cannot examine {}: {}", path.string(), errno_text(errno));
  if (!S_ISREG(status.st_mode))
    fail({ExitCode::kBadData, "io.not_a_file"}, "{} is {}, not a regular file", path.string(),
         kind_of(status.st_mode));
  return InputFile(path, std::move(descriptor), status.st_size);
}

std::optional<InputFile> InputFile::open_direct(const std::filesystem::path& path) {
  InputFile file = open(path);
  FileDescriptor direct(::open(path.c_str(), kReadOnly | O_DIRECT));
  if (direct.get() < 0) return std::nullopt;
  file.descriptor_ = std::move(direct);
  // Some file systems accept the flag and then refuse every read, or need larger blocks: try one block.
  alignas(kBlockBytes) std::array<std::byte, kBlockBytes> block;
  if (::pread(file.descriptor_.get(), block.data(), block.size(), 0) < 0) return std::nullopt;
  return file;
}

void InputFile::read_at(std::int64_t offset, std::span<std::byte> out) const {
  read_at_least(std::ssize(out), offset, out);
}

void InputFile::read_at_least(std::int64_t needed, std::int64_t offset, std::span<std::byte> out) const {
  while (needed > 0) {
    const ssize_t got =
        ::pread(descriptor_.get(), out.data(), std::min(out.size(), kLargestTransfer), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      fail({ExitCode::kIo, "io.read"}, "cannot read {} at offset {}: {}", path_.string(), offset,
           errno_text(errno));
    if (got == 0)
      fail({ExitCode::kBadData, "io.damaged"},
           "{} ends at offset {}, {} bytes too early: it had {} bytes when it was opened", path_.string(),
           offset, needed, size_bytes_);
    offset += got;
    needed -= got;
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

void InputFile::advise_sequential() const { ::posix_fadvise(descriptor_.get(), 0, 0, POSIX_FADV_SEQUENTIAL); }

void InputFile::advise_random() const { ::posix_fadvise(descriptor_.get(), 0, 0, POSIX_FADV_RANDOM); }

void InputFile::drop_cache(std::int64_t offset, std::int64_t bytes) const {
  // A length of 0 would mean "to the end of the file".
  if (bytes > 0) ::posix_fadvise(descriptor_.get(), offset, bytes, POSIX_FADV_DONTNEED);
}

bool InputFile::is_cached(std::int64_t offset) const {
  std::byte byte{};
  const iovec one{&byte, 1};
  return ::preadv2(descriptor_.get(), &one, 1, offset, RWF_NOWAIT) == 1;
}

std::optional<std::int64_t> InputFile::cached_bytes() const {
  if (!tells_residency(path_, descriptor_.get())) return std::nullopt;
  constexpr std::int64_t kWindow = std::int64_t{1} << 30;
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  std::vector<unsigned char> resident(static_cast<std::size_t>(kWindow / page));
  std::int64_t pages = 0;
  for (std::int64_t offset = 0; offset < size_bytes_; offset += kWindow) {
    const auto length = static_cast<std::size_t>(std::min(kWindow, size_bytes_ - offset));
    // The window is mapped but never touched, so it costs no memory.
    void* const window = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, descriptor_.get(), offset);
    if (window == MAP_FAILED) return std::nullopt;
    const bool told = ::mincore(window, length, resident.data()) == 0;
    ::munmap(window, length);
    if (!told) return std::nullopt;
    const auto end = resident.begin() + divide_up<std::int64_t>(static_cast<std::int64_t>(length), page);
    pages += std::count_if(resident.begin(), end, [](unsigned char state) { return (state & 1) != 0; });
  }
  return pages * page;
}

OutputFile::OutputFile(std::filesystem::path path, FileDescriptor descriptor)
    : path_(std::move(path)), descriptor_(std::move(descriptor)) {}

OutputFile OutputFile::create(const std::filesystem::path& path) {
  FileDescriptor descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (descriptor.get() < 0) {
    const int error_number = errno;
    const std::string link = dangling_link_text(path);
    fail(write_failure(error_number), "cannot create {}: {}", path.string(),
         link.empty() ? errno_text(error_number) : link);
  }
  return OutputFile(path, std::move(descriptor));
}

std::optional<OutputFile> OutputFile::create_direct(const std::filesystem::path& path) {
  OutputFile file = create(path);
  FileDescriptor direct(::open(path.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC));
  // Some file systems accept the flag and then refuse every write, or need larger blocks: try one block.
  alignas(InputFile::kBlockBytes) std::array<std::byte, InputFile::kBlockBytes> block{};
  if (direct.get() >= 0) {
    file.descriptor_ = std::move(direct);
    if (::pwrite(file.descriptor_.get(), block.data(), block.size(), 0) >= 0 || errno != EINVAL) return file;
  }
  ::unlink(path.c_str());
  return std::nullopt;
}

OutputFile OutputFile::open(const std::filesystem::path& path) {
  FileDescriptor descriptor(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (descriptor.get() < 0)
    fail(write_failure(errno), "cannot open {} to write: {}", path.string(), errno_text(errno));
  return OutputFile(path, std::move(descriptor));
}

OutputFile::~OutputFile() {
  const int descriptor = descriptor_.release();
  if (descriptor >= 0 && ::close(descriptor) != 0)
    log::warning("closing {} failed, its content may be incomplete: {}", path_.string(), errno_text(errno));
}

void OutputFile::write_at(std::int64_t offset, std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t put =
        ::pwrite(descriptor_.get(), data.data(), std::min(data.size(), kLargestTransfer), offset);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0)
      fail(write_failure(errno), "cannot write {} at offset {}: {}", path_.string(), offset,
           errno_text(errno));
    offset += put;
    data = data.subspan(static_cast<std::size_t>(put));
  }
}

void OutputFile::resize(std::int64_t bytes) {
  if (::ftruncate(descriptor_.get(), bytes) != 0)
    fail(write_failure(errno), "cannot set the length of {} to {} bytes: {}", path_.string(), bytes,
         errno_text(errno));
}

void OutputFile::write_back(std::int64_t offset, std::int64_t bytes, unsigned flags) {
  if (bytes == 0) return;  // a count of 0 would mean "to the end of the file"
  if (::sync_file_range(descriptor_.get(), offset, bytes, flags) == 0) return;
  // Some file systems do not know the call; close() writes then. But a failed write is reported only once, so
  // such errors must not be passed over.
  if (errno == EIO || errno == ENOSPC || errno == EDQUOT)
    fail(write_failure(errno), "cannot write {} to disk: {}", path_.string(), errno_text(errno));
}

void OutputFile::start_writeback(std::int64_t offset, std::int64_t bytes) {
  write_back(offset, bytes, SYNC_FILE_RANGE_WRITE);
}

void OutputFile::drop_written(std::int64_t offset, std::int64_t bytes) {
  write_back(offset, bytes, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  if (bytes > 0) ::posix_fadvise(descriptor_.get(), offset, bytes, POSIX_FADV_DONTNEED);
}

void OutputFile::close() {
  // A failed fsync is final: the kernel may already have dropped the pages, so trying again would prove
  // nothing.
  const FileDescriptor descriptor(descriptor_.release());
  if (::fsync(descriptor.get()) != 0)
    fail(write_failure(errno), "cannot write {} to disk: {}", path_.string(), errno_text(errno));
}

std::string read_text_file(const std::filesystem::path& path, std::int64_t limit_bytes) {
  const InputFile file = InputFile::open(path);
  if (file.size_bytes() > limit_bytes)
    fail({ExitCode::kBadData, "io.not_a_file"}, "{} has {} bytes, more than the {} that such a file may have",
         path.string(), file.size_bytes(), limit_bytes);
  std::string text(checked_cast<std::size_t>(file.size_bytes()), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void write_text_file(const std::filesystem::path& path, std::string_view text, Durability durability) {
  std::filesystem::path temporary = path;
  temporary += ".tmp-" + std::to_string(::getpid());
  std::error_code ignored;
  std::filesystem::remove(temporary, ignored);  // removes a file left by a dead process of the same number
  try {
    OutputFile file = OutputFile::create(temporary);
    file.write_at(0, std::as_bytes(std::span(text)));
    if (durability == Durability::kDisk) file.close();
    if (::rename(temporary.c_str(), path.c_str()) != 0)
      fail(write_failure(errno), "cannot rename {} to {}: {}", temporary.string(), path.string(),
           errno_text(errno));
  } catch (...) {
    std::filesystem::remove(temporary, ignored);
    throw;
  }
  if (durability == Durability::kDisk) sync_directory_of(path);
}

}  // namespace sluice
