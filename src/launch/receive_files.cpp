#include "base/bytes.hpp"
#include "base/error.hpp"
#include "comm/outcome.hpp"
#include "io/file.hpp"
#include "io/path.hpp"
#include "io/staged_directory.hpp"
#include "launch/handover.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <span>
#include <string>
#include <system_error>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// Milliseconds of silence of the launch after which an incomplete file is removed.
constexpr int kSilenceMilliseconds = 60'000;

void answer(const Json& words) {
  const std::string line = words.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, line.data(), line.size());
}

/// Receives into the front of `out`; returns the number of bytes, at least 1. Error(kIo) if the launch has
/// ended.
std::size_t receive(std::span<char> out) {
  pollfd waited{STDIN_FILENO, POLLIN, 0};
  ssize_t count = -1;
  do {
    if (::poll(&waited, 1, kSilenceMilliseconds) != 0) count = ::read(STDIN_FILENO, out.data(), out.size());
  } while (count < 0 && errno == EINTR);
  if (count <= 0) fail({ExitCode::kIo, "launch.host"}, "the launch that was handing files over has gone");
  return static_cast<std::size_t>(count);
}

/// Receives a line byte by byte, because file content follows.
std::string receive_line() {
  std::string line;
  for (char letter = 0; receive({&letter, 1}) == 1 && letter != '\n';) line += letter;
  return line;
}

/// Whether the file must be sent.
bool is_lacking(const HandedFile& file) {
  if (!path_exists(file.path)) return true;
  if (file.stays) return false;
  const HandedFile own = HandedFile::describe(file.path);
  if (own.has_same_content(file)) return false;
  if (own.changed < file.changed) return true;
  fail({ExitCode::kBadConfig, "launch.file_differs"},
       "{} is not the file that the launch's host has under this path, and newer: expected the same on all "
       "hosts. Copy the right one to that host too, or remove this one and the launch hands its own over",
       file.path.string());
}

void receive_into(OutputFile& out, std::int64_t bytes) {
  std::vector<char> block(static_cast<std::size_t>(kMiB));
  for (std::int64_t begin = 0; begin < bytes;) {
    const auto most = static_cast<std::size_t>(std::min<std::int64_t>(kMiB, bytes - begin));
    const std::size_t count = receive(std::span(block).first(most));
    out.write_at(begin, std::as_bytes(std::span(block).first(count)));
    begin += static_cast<std::int64_t>(count);
  }
  out.close();
}

/// Receives a file, which appears under its name complete or not at all.
void receive_file(const HandedFile& file) {
  make_directories(file.path.parent_path());
  const fs::path partial = name_beside(file.path, "partial");
  const Outcome outcome = outcome_of([&] {
    OutputFile out = OutputFile::create(partial);
    receive_into(out, file.bytes);
    fs::last_write_time(partial, fs::file_time_type(std::chrono::duration_cast<fs::file_time_type::duration>(
                                     std::chrono::nanoseconds(file.changed))));
    fs::rename(partial, file.path);
    sync_directory(file.path.parent_path());
  });
  if (!outcome.failed()) return;
  std::error_code error;
  fs::remove(partial, error);
  outcome.throw_if_failed();
}

void take_part() {
  const Json order = Json::parse(receive_line(), nullptr, /*allow_exceptions=*/false);
  if (!order.is_object()) fail(ExitCode::kUsage, "receive-files: only `sluice launch --hosts` starts it");
  make_directories(order.value("directory", "/"));
  std::vector<HandedFile> lacking;
  std::vector<std::size_t> numbers;
  const Json& files = order.at("files");
  for (std::size_t number = 0; number < files.size(); ++number) {
    const HandedFile file = files.at(number);
    if (!is_lacking(file)) continue;
    lacking.push_back(file);
    numbers.push_back(number);
  }
  answer({{"lacks", numbers}});
  for (const HandedFile& file : lacking) receive_file(file);
  if (!lacking.empty()) answer({{"lacks", Json::array()}});
}

}  // namespace

int receive_files() {
  ::signal(SIGPIPE, SIG_IGN);
  const Outcome outcome = outcome_of(take_part);
  if (outcome.failed())
    answer({{"refused", outcome.text}, {"code", static_cast<int>(outcome.code)}, {"id", outcome.id.text()}});
  return static_cast<int>(outcome.code);
}

}  // namespace sluice
