// Records that ranks send to `sluice launch` in their stderr, which it takes out of what it passes on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

struct RankRecord {
  int rank = -1;  ///< -1: of all ranks together
  int code = 0;   ///< the job's exit code; 0: the job goes on
  std::string host{};
  std::string report{};         ///< the whole block that explains the end of the job
  std::int64_t saved_step = 0;  ///< number of a step that has just been saved; 0: none
};

/// Whether a launch that reads records has started this process.
[[nodiscard]] bool is_launched_on_hosts();

/// Tells the launch the host of this rank, if there is such a launch.
void announce_rank(int rank);

/// Tells the launch that the step is saved on the disks of the ranks, which the launch may not see, if there
/// is such a launch.
void announce_saved_step(int rank, std::int64_t step);

/// Explains the end of the job, by `code`: under such a launch to it, which prints one explanation of all
/// that it hears, else on stderr. Into this rank's log as well. `rank` is -1 for an end that all ranks know
/// of.
void report_ending(int rank, int code, std::string_view report);

/// The record in a line of stderr; nothing where the line is none.
[[nodiscard]] std::optional<RankRecord> parse_rank_record(std::string_view line);

}  // namespace sluice
