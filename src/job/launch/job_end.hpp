// The one explanation of the end of a job on several hosts.
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

/// A host that the launch does not hear any more.
struct LostHost {
  std::string name;
  std::vector<int> ranks;     ///< ranks that ran there, ascending
  double silent_seconds = 0;  ///< seconds since its last word
  bool is_disconnected =
      false;  ///< the connection was closed from there, as when all of the host's processes end
};

struct JobEnd {
  int ranks = 0;
  std::vector<RankRecord> endings;   ///< endings that ranks have told, the first one first
  std::map<int, std::string> hosts;  ///< host of each rank
  std::vector<LostHost> lost;
  std::filesystem::path run;         ///< the run directory; "" of a job that has none
  std::int64_t saved_step = 0;       ///< number of the last step that the ranks have saved; 0: none
  std::optional<RankDeath> death{};  ///< end of the first rank that has not told why
};

/// The block that explains the end: what the first failing rank has said, or else that a rank, or the first
/// one of a lost host, died without a word; the hosts of the ranks that are named, what was lost, how far the
/// run was by its status.json and by its ranks, and what to do. "" where nothing of that is known.
[[nodiscard]] std::string end_report(const JobEnd& end);

/// The exit code of the job: of what the first failing rank has said, or else 70 for a lost host and for a
/// rank that a signal has ended, or that of a rank that has ended by itself; 0 where nothing is known.
[[nodiscard]] int end_code(const JobEnd& end);

/// Whether starting the job again may help: not after a refusal, an end that was asked for, numbers that are
/// not finite, too little memory or a full disk.
[[nodiscard]] bool may_start_again(const JobEnd& end);

}  // namespace sluice
