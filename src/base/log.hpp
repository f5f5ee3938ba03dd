// Rank-prefixed logging to stderr, and to a file of each rank. Library code logs what a user must know even
// when nothing fails (kInfo and above), and for the file alone what this rank did (kDebug); it never prints.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace sluice::log {

enum class Level { kDebug, kInfo, kWarning, kError };

/// Sets the prefix of later lines ("[0/3] "). Before the first call there is no prefix.
void set_rank(int rank, int size);

/// Sets the lowest level that is written to stderr; kInfo at first, or the level named by SLUICE_LOG (debug,
/// info, warning, error).
void set_level(Level level);

/// Creates a file to which every line of any level is also written. Error(kIo) if that fails.
void add_file(const std::string& path);

/// Closes every file of add_file(): later lines go to stderr alone.
void close_files();

/// Writes one line. Safe from any thread.
void write(Level level, std::string_view text);

/// Writes a text that the terminal has shown already to the files alone, line by line. Safe from any thread.
void record(Level level, std::string_view text);

template <class... Args>
void debug(fmt::format_string<Args...> text, Args&&... args) {
  write(Level::kDebug, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
void info(fmt::format_string<Args...> text, Args&&... args) {
  write(Level::kInfo, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
void warning(fmt::format_string<Args...> text, Args&&... args) {
  write(Level::kWarning, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
void error(fmt::format_string<Args...> text, Args&&... args) {
  write(Level::kError, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace sluice::log
