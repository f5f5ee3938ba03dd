// Rank-prefixed logging to stderr. Library code logs what a user must know even when nothing fails; it never
// prints.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace sluice::log {

enum class Level { kDebug, kInfo, kWarning, kError };

/// Sets what later lines begin with ("[0/3] "). Before the first call there is no prefix.
void set_rank(int rank, int size);

/// Lines below this level are dropped; kInfo at first, or what SLUICE_LOG (debug, info, warning, error) says.
void set_level(Level level);

/// Also appends every line to this file, which is created. Error(kIo) if it cannot be.
void add_file(const std::string& path);

/// Writes one line. Safe from any thread.
void write(Level level, std::string_view text);

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
