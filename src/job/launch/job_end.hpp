// Explanation of the end of a job on several hosts.
#pragma once

#include "job/launch/host_list.hpp"
#include "job/launch/rank_death.hpp"
#include "job/launch/rank_record.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

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
