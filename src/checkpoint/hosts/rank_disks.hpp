// Disks of the ranks: which ranks save to the same disk, and where the copy of a rank's file goes.
#pragma once

#include <cstddef>
#include <vector>

namespace sluice {

/// The disk to which each rank saves: one for all ranks if they share a file system, else one per host. Disks
/// are numbered from 0 in the order of their lowest ranks.
class RankDisks {
 public:
  /// One disk that all `world` ranks see.
  [[nodiscard]] static RankDisks shared(int world);
  /// The disk that a process alone sees, of a job whose other hosts may have disks of their own.
  [[nodiscard]] static RankDisks of_this_host();
  /// One disk per node, with nodes numbered as by find_nodes().
  explicit RankDisks(std::vector<int> of_rank);

  /// Whether files that lie on none of these disks are lost; otherwise another host may have them.
  [[nodiscard]] bool are_all() const { return are_all_; }
  [[nodiscard]] int world() const { return static_cast<int>(of_rank_.size()); }
  [[nodiscard]] int count() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] int of(int rank) const { return of_rank_[static_cast<std::size_t>(rank)]; }
  /// The ranks that save to a disk, ascending. The first of them does the work that is done once per disk.
  [[nodiscard]] const std::vector<int>& ranks_of(int disk) const {
    return ranks_[static_cast<std::size_t>(disk)];
  }
  [[nodiscard]] int first_rank(int disk) const { return ranks_of(disk).front(); }
  [[nodiscard]] bool is_first(int rank) const { return first_rank(of(rank)) == rank; }

  /// Whether the rank of equal number in an earlier set, each of `set_ranks` consecutive ranks, saves to a rank's disk.
  [[nodiscard]] bool has_earlier_counterpart(int rank, int set_ranks) const;

  /// The rank that writes the copy of a rank's file, to the next disk: the ranks of a disk take turns. Needs
  /// at least two disks.
  [[nodiscard]] int partner(int rank) const;

  bool operator==(const RankDisks&) const = default;

 private:
  bool are_all_ = true;
  std::vector<int> of_rank_;
  std::vector<std::vector<int>> ranks_;  ///< ranks that save to each disk
};

}  // namespace sluice
