// Position of this rank: the section of its job and its last operations, for messages about failures. There
// is one per process, written by the thread that calls MPI, read from any thread and, where so marked, from
// signal handlers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::position {

/// Enters a section of the job ("load", "step"); counts as progress.
void enter(std::string_view section);
/// Marks the beginning of an operation; counts as progress. `name` is a literal. `sequence` numbers the
/// operation, or says which of several it is.
void begin(const char* name, std::int64_t sequence);

/// Seconds since the last enter() or begin(), less those passed to forgive().
[[nodiscard]] double seconds_since_progress();
/// Subtracts seconds during which this process did not run from the time without progress.
void forgive(double seconds);

/// Position as a short text: "section step, after all_reduce #12".
[[nodiscard]] std::string short_text();
/// The last operations, newest first, at most `most` of them: "all_gather #41, stage #3, …".
[[nodiscard]] std::string operations_text(std::size_t most);

/// Number of operations that are remembered.
inline constexpr std::size_t kRemembered = 256;

/// Writes short_text() to `out` without allocating, for signal handlers; ends it by a zero, and returns its
/// length.
std::size_t write_short(char* out, std::size_t size) noexcept;

}  // namespace sluice::position
