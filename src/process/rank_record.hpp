// Records that ranks send to `sluice launch` in their stderr, from which it removes them.
#pragma once

#include "base/error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

struct RankRecord {
  int rank = -1;  ///< rank that sends the record; -1: all ranks together
  int code = 0;   ///< exit code of the job; 0: the job goes on
  std::string host{};
  std::string report{};         ///< report that explains the end of the job
  std::int64_t saved_step = 0;  ///< step that has just been saved; 0: none
  std::string id{};             ///< id of the failure that ends the job; "": none
};

/// Whether this process was started by a launch that reads records.
[[nodiscard]] bool is_launched_on_hosts();

/// Tells the launch, if there is one, the host of this rank.
void announce_rank(int rank);

/// Tells the launch, if there is one, that a step is saved on the disks of the ranks, which the launch may
/// not see.
void announce_saved_step(int rank, std::int64_t step);

/// Report of a rank that fails and thereby ends a job of `ranks` ranks with exit code `code`.
[[nodiscard]] std::string failed_rank_text(int rank, int ranks, int code, std::string_view reason);

/// Explains the end of the job by `cause`: to a launch, which prints one explanation for all
/// ranks, or else on stderr; and in this rank's log. `rank` is -1 for an end that all ranks know of.
void report_ending(int rank, const Cause& cause, std::string_view report);

/// The record in a line of stderr; nothing if the line has none.
[[nodiscard]] std::optional<RankRecord> parse_rank_record(std::string_view line);

}  // namespace sluice
