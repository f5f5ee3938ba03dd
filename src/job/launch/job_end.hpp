// The one explanation of the end of a job on several hosts.
#pragma once

#include "job/launch/host_list.hpp"
#include "job/launch/rank_record.hpp"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace sluice {

/// A host that the launch does not hear any more.
struct LostHost {
  std::string name;
  std::vector<int> ranks;     ///< those that ran there, ascending
  double silent_seconds = 0;  ///< seconds since its last word
  bool is_disconnected =
      false;  ///< the connection was closed from there, as when all of the host's processes end
};

struct JobEnd {
  int ranks = 0;
  std::vector<RankRecord> endings;   ///< what ranks have said, the first one first
  std::map<int, std::string> hosts;  ///< each rank's host
  std::vector<LostHost> lost;
  std::filesystem::path run;  ///< the run directory; "" of a job that has none
};

/// The block that explains the end: what the first failing rank has said, or else that the first rank of a
/// lost host died without a word; the rank's host, what was lost, how far the run was by its status.json, and
/// what to do. "" where neither is known.
[[nodiscard]] std::string end_report(const JobEnd& end);

/// The exit code of the job: of what the first failing rank has said, or 70 for a lost host; 0 where neither
/// is known.
[[nodiscard]] int end_code(const JobEnd& end);

}  // namespace sluice
