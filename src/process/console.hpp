// Output for people: lines on stdout, a report on stderr, tables. Lines and reports of a job are also in the
// log of its run directory.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::console {

/// Sends lines and progress to stderr from now on, so that stdout has only results.
void keep_stdout_for_results();
/// Writes a part of a result to stdout at once.
void result(std::string_view text);

/// Writes a line to stdout at once.
void write_line(std::string_view text);
template <class... Args>
void line(fmt::format_string<Args...> text, Args&&... args) {
  write_line(fmt::format(text, std::forward<Args>(args)...));
}
/// Writes text unchanged, for a progress line that redraws itself.
void raw(std::string_view text);
[[nodiscard]] bool is_terminal();
/// Width at which texts are printed, in columns: that of the terminal on stdout, between 60 and 100; 100
/// without a terminal.
[[nodiscard]] std::size_t text_columns();
/// Error(kIo) if some of the output to stdout could not be written.
void require_written();

/// Writes the report that explains the end of a job, to stderr in one write.
void report(std::string_view text);

/// Duration as h:mm:ss, rounded up: "1:02:03"; "?" for a negative number.
[[nodiscard]] std::string time_text(double seconds);

/// Table as text: rows of cells with a header, columns aligned, the first to the left, others to the right.
[[nodiscard]] std::string table(const std::vector<std::vector<std::string>>& rows);

}  // namespace sluice::console
