#include "corpus/source/source_file.hpp"

#include "base/error.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <system_error>

namespace sluice::corpus {
namespace {

namespace fs = std::filesystem;

/// Descriptor of this process that a path such as /dev/stdin or /dev/fd/63 means.
std::optional<int> own_descriptor(const fs::path& path) {
  const std::string name = path.string();
  if (name == "/dev/stdin") return STDIN_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!name.starts_with(folder)) continue;
    int number = -1;
    const char* const end = name.data() + name.size();
    const auto [last, error] = std::from_chars(name.data() + folder.size(), end, number);
    if (error == std::errc() && last == end) return number;
  }
  return std::nullopt;
}

/// Opens a stream; one of this process's descriptors is copied, because opening it again would hide that its
/// writers have ended.
FileDescriptor open_stream(const fs::path& path) {
  const std::optional<int> own = own_descriptor(path);
  FileDescriptor stream(own ? ::fcntl(*own, F_DUPFD_CLOEXEC, 0)
                            : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (stream.get() < 0)
    fail({ExitCode::kIo, "io.read"}, "cannot open {}: {}", path.string(), errno_text(errno));
  return stream;
}

}  // namespace

bool is_stream(const fs::path& path) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  return type == fs::file_type::fifo || type == fs::file_type::character || type == fs::file_type::socket;
}

void require_no_stream(const fs::path& path, const std::string& what, const std::string& instead) {
  if (is_stream(path))
    fail(ExitCode::kBadData,
         "{}{} is not a regular file and can be read only once, expected a file that stays; {}", what,
         path.string(), instead);
}

SourceFile SourceFile::open(const fs::path& path) {
  if (is_stream(path)) return {path, std::nullopt, open_stream(path)};
  InputFile file = InputFile::open(path);
  file.advise_sequential();
  return {path, std::move(file), FileDescriptor(-1)};
}

std::size_t SourceFile::read(std::span<std::byte> out, const std::function<bool()>& stops) {
  if (!file_) return read_stream(out, stops);
  const auto bytes =
      static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(out), file_->size_bytes() - offset_));
  file_->read_at(offset_, out.first(bytes));
  offset_ += static_cast<std::int64_t>(bytes);
  return bytes;
}

std::size_t SourceFile::read_stream(std::span<std::byte> out, const std::function<bool()>& stops) {
  constexpr int kWaitMilliseconds = 200;
  std::size_t filled = 0;
  while (filled < out.size() && !stops()) {
    pollfd input{stream_.get(), POLLIN, 0};
    const int ready = ::poll(&input, 1, kWaitMilliseconds);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const ssize_t got = ready < 0 ? -1 : ::read(stream_.get(), out.data() + filled, out.size() - filled);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) fail({ExitCode::kIo, "io.read"}, "cannot read {}: {}", path_.string(), errno_text(errno));
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  return filled;
}

}  // namespace sluice::corpus
