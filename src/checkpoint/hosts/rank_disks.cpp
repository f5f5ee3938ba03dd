#include "checkpoint/hosts/rank_disks.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <utility>

namespace sluice {

RankDisks RankDisks::shared(int world) {
  return RankDisks(std::vector<int>(static_cast<std::size_t>(world), 0));
}

RankDisks RankDisks::of_this_host() {
  RankDisks disk = shared(1);
  disk.are_all_ = false;
  return disk;
}

RankDisks::RankDisks(std::vector<int> of_rank) : of_rank_(std::move(of_rank)) {
  for (int rank = 0; rank < world(); ++rank) {
    const auto disk = static_cast<std::size_t>(of(rank));
    SLUICE_ASSERT(disk <= ranks_.size(), "disk {} of rank {} comes before disk {}", disk, rank,
                  ranks_.size());
    if (disk == ranks_.size()) ranks_.emplace_back();
    ranks_[disk].push_back(rank);
  }
}

bool RankDisks::has_earlier_counterpart(int rank, int set_ranks) const {
  for (int earlier = rank - set_ranks; earlier >= 0; earlier -= set_ranks)
    if (of(earlier) == of(rank)) return true;
  return false;
}

int RankDisks::partner(int rank) const {
  SLUICE_ASSERT(count() > 1, "rank {} has no disk for a copy", rank);
  const std::vector<int>&own = ranks_of(of(rank)), &next = ranks_of((of(rank) + 1) % count());
  const auto turn = static_cast<std::size_t>(std::ranges::find(own, rank) - own.begin());
  return next[turn % next.size()];
}

}  // namespace sluice
