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
/// An operation begins; counts as progress. `name` is a literal. `sequence` as Operation's, or which of
/// several.
void begin(const char* name, std::int64_t sequence);

/// Time since enter() or begin(), but for what forgive() took off.
[[nodiscard]] double seconds_since_progress();
/// Time in which this process did not run counts for nothing.
void forgive(double seconds);

/// "section step, after all_reduce #12"
[[nodiscard]] std::string short_text();
/// The last operations, newest first: "all_gather #41, stage #3, …", `most` of them.
[[nodiscard]] std::string operations_text(std::size_t most);

/// How many operations are remembered.
inline constexpr std::size_t kRemembered = 256;

/// short_text() without allocating, for signal handlers: into `out`, ended by a zero; its length.
std::size_t write_short(char* out, std::size_t size) noexcept;

}  // namespace sluice::position
