#include "process/console.hpp"

#include "base/error.hpp"
#include "base/log.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace sluice::console {
namespace {

/// Writes a text; a closed or broken stream must not keep a job from ending.
void write_to(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

/// Stream to which lines are printed.
std::FILE*& lines() {
  static std::FILE* stream = stdout;
  return stream;
}

}  // namespace

void keep_stdout_for_results() { lines() = stderr; }

void result(std::string_view text) { write_to(stdout, text); }

void write_line(std::string_view text) {
  write_to(lines(), std::string(text) + "\n");
  log::record(log::Level::kInfo, text);
}

void raw(std::string_view text) { write_to(lines(), text); }

void require_written() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    fail({ExitCode::kIo, "io.write"}, "what was to be printed could not all be written to stdout");
}

bool is_terminal() {
  if (isatty(STDOUT_FILENO) != 1) return false;
  // mpirun gives its ranks a pseudo-terminal and passes on what they write, so its own stdout counts.
  if (std::getenv("OMPI_COMM_WORLD_RANK") == nullptr) return true;
  std::error_code error;
  const auto launcher = std::filesystem::read_symlink(fmt::format("/proc/{}/fd/1", getppid()), error);
  return !error && (launcher.string().starts_with("/dev/pts/") || launcher.string().starts_with("/dev/tty"));
}

std::size_t text_columns() {
  constexpr int kFewest = 60;
  constexpr int kMost = 100;
  winsize size{};
  const bool is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return static_cast<std::size_t>(is_known ? std::clamp<int>(size.ws_col, kFewest, kMost) : kMost);
}

void report(std::string_view text) {
  write_to(stderr, std::string(text) + "\n");
  log::record(log::Level::kError, text);
}

std::string time_text(double seconds) {
  if (!(seconds >= 0)) return "?";
  const auto whole = static_cast<std::int64_t>(std::ceil(seconds));
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i)
      out += i == 0 ? fmt::format("  {:<{}}", row[i], widths[i]) : fmt::format("  {:>{}}", row[i], widths[i]);
    out += '\n';
  }
  if (!out.empty()) out.pop_back();
  return out;
}

}  // namespace sluice::console
