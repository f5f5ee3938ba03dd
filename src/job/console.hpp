// Output for people: lines on stdout, one report block on stderr, tables. Lines and reports of a job are also
// in the log of its run directory.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::console {

/// Sends lines and progress to stderr from now on: stdout is for results alone.
void keep_stdout_for_results();
/// Part of a result, to stdout, at once.
void result(std::string_view text);

/// One line to stdout, at once.
void write_line(std::string_view text);
template <class... Args>
void line(fmt::format_string<Args...> text, Args&&... args) {
  write_line(fmt::format(text, std::forward<Args>(args)...));
}
/// Text as it is, for a progress line that redraws itself.
void raw(std::string_view text);
[[nodiscard]] bool is_terminal();
/// How wide texts are printed: as the terminal on stdout is, but 60 to 100 columns; 100 where there is none.
[[nodiscard]] std::size_t text_columns();
/// Error(kIo) if some of the output to stdout could not be written.
void require_written();

/// The one explanation of a job that ends: to stderr, in one write.
void report(std::string_view text);

/// "1:02:03" in h:mm:ss, rounded up; "?" for less than nothing.
[[nodiscard]] std::string time_text(double seconds);

/// Rows of cells with a header, columns aligned: the first to the left, others to the right.
[[nodiscard]] std::string table(const std::vector<std::vector<std::string>>& rows);

}  // namespace sluice::console
