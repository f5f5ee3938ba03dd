// Explanation of the end of a job on several hosts, by what its ranks, mpirun and the monitors tell of it.
#pragma once

#include "process/rank_record.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// End of a rank that has told nothing about it, as far as mpirun knows.
struct RankDeath {
  int rank = -1;  ///< rank that has ended; -1: not known
  std::string host{};
  int signal = 0;         ///< signal that has ended the rank; 0: it has ended by itself, with `code`
  int code = 0;           ///< exit status of the rank
  bool has_told = false;  ///< whether the rank has printed its stack, as one that crashes does
};

/// The death about which a block of mpirun between lines of dashes tells; nothing if it tells something else.
[[nodiscard]] std::optional<RankDeath> parse_rank_death(std::string_view block);

/// Death of a rank by mpirun's exit status alone, which is that of a rank.
[[nodiscard]] RankDeath death_of_status(int status);

/// A host from which the launch hears nothing any more.
struct LostHost {
  std::string name;
  std::vector<int> ranks;        ///< ranks that ran on the host, ascending
  double silent_seconds = 0;     ///< seconds since its last message
  bool is_disconnected = false;  ///< whether the host closed the connection, as when all of its processes end
};

struct JobEnd {
  int ranks = 0;
  std::vector<RankRecord> endings;   ///< endings that ranks have reported, the first one first
  std::map<int, std::string> hosts;  ///< host of each rank
  std::vector<LostHost> lost;
  std::filesystem::path run;         ///< run directory; "" for a job without one
  std::int64_t saved_step = 0;       ///< last step that the ranks have saved; 0: none
  std::optional<RankDeath> death{};  ///< end of the first rank that has not told why
};

/// Report that explains the end: the message of the first failing rank, or else that a rank, or the first
/// rank of a lost host, died without a message; the hosts of the named ranks, what was lost, the run's
/// progress by its status.json and its ranks, and what to do. "" if none of this is known.
[[nodiscard]] std::string end_report(const JobEnd& end);

/// Exit code of the job: that of the first failing rank's message; else 70 for a lost host or a rank that a
/// signal ended, or the code of a rank that ended by itself; 0 if nothing is known.
[[nodiscard]] int end_code(const JobEnd& end);

/// Whether starting the job again may help: not after a refusal, a requested end, numbers that are not
/// finite, too little memory or a full disk.
[[nodiscard]] bool may_start_again(const JobEnd& end);

}  // namespace sluice
