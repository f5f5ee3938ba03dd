#include "job/saving/save_disks.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "checkpoint/step_directory.hpp"
#include "comm/run_together.hpp"
#include "io/path.hpp"
#include "io/staged_directory.hpp"
#include "job/prepare/save_plan.hpp"
#include "job/prepare/target_place.hpp"
#include "process/host_name.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// Seconds until a file that another host has just created is visible through a network file system.
constexpr double kSightSeconds = 2;

bool comes_to_be_seen(const fs::path& path) {
  const Stopwatch watch;
  while (!path_exists(path)) {
    if (watch.seconds() > kSightSeconds) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return true;
}

/// Collective over `comm`. For each rank a text with a digit per node: whether the rank sees the file of the
/// node's first rank.
std::vector<std::string> find_sight(Communicator& comm, const RankDisks& nodes, const fs::path& directory) {
  std::optional<StagedDirectory> trial;
  run_together(comm, [&] {
    if (nodes.is_first(comm.rank()))
      trial.emplace(directory / "trial", IfTaken::kRefuse, Leftovers::kAreNoMatter);
  });
  const std::vector<std::string> made = comm.all_gather_text(trial ? trial->path().string() : "");
  std::string seen;
  run_together(comm, [&] {
    for (int node = 0; node < nodes.count(); ++node) {
      const fs::path path = made[static_cast<std::size_t>(nodes.first_rank(node))];
      // If the directory of a path is missing, so is the path.
      seen += comes_to_be_seen(path) ? '1' : '0';
    }
  });
  return comm.all_gather_text(seen);  // all ranks have looked when this returns
}

bool all_see_the_first(const std::vector<std::string>& sight) {
  return std::ranges::all_of(sight, [](const std::string& seen) { return seen.front() == '1'; });
}

/// Error(kBadConfig) unless each rank sees the file of its own node, and no other.
void require_own_disks(const std::vector<std::string>& sight, const RankDisks& nodes,
                       const std::vector<std::string>& hosts, const fs::path& directory) {
  for (int rank = 0; rank < nodes.world(); ++rank)
    for (int node = 0; node < nodes.count(); ++node) {
      const bool sees = sight[static_cast<std::size_t>(rank)][static_cast<std::size_t>(node)] == '1';
      if (sees == (nodes.of(rank) == node)) continue;
      fail({ExitCode::kBadConfig, "job.storage"},
           "checkpoint.path: rank {} on {} {} what {} made in {}. Expected a directory that all hosts share "
           "(checkpoint.storage = \"shared\"), or one that is on a disk of its own on each (\"node\")",
           rank, hosts[static_cast<std::size_t>(nodes.of(rank))], sees ? "sees" : "does not see",
           hosts[static_cast<std::size_t>(node)], directory.string());
    }
}

}  // namespace

SaveDisks find_save_disks(Communicator& comm, std::span<const int> nodes, const JobConfig& config) {
  const RankDisks of_nodes({nodes.begin(), nodes.end()});
  const fs::path directory = checkpoint_directory(config);
  const SaveStorage storage = config.checkpoint.storage;
  const bool wants_copies = partner_copies(config) > 0;
  const std::vector<std::string> names = comm.all_gather_text(host_name());
  std::vector<std::string> hosts;
  for (int node = 0; node < of_nodes.count(); ++node)
    hosts.push_back(names[static_cast<std::size_t>(of_nodes.first_rank(node))]);
  if (storage == SaveStorage::kNode && wants_copies && of_nodes.count() == 1)
    run_together(comm, [&] {
      fail({ExitCode::kBadConfig, "job.storage"},
           "checkpoint.partner_copies: found 1, expected 0, because all ranks are on {}: there is no other "
           "host that could keep a copy",
           hosts.front());
    });
  if (storage != SaveStorage::kShared && of_nodes.count() > 1) {
    const std::vector<std::string> sight = find_sight(comm, of_nodes, directory);
    if (storage == SaveStorage::kNode || !all_see_the_first(sight)) {
      run_together(comm, [&] {
        require_own_disks(sight, of_nodes, hosts, directory);
        try_to_create_beside("checkpoint.path", directory / "trial");
      });
      return {of_nodes, std::move(hosts), wants_copies};
    }
  }
  require_shared_directory(comm, "checkpoint.path", directory / "trial");
  return {RankDisks::shared(comm.size()), {}, false};
}

}  // namespace sluice
