// Reader assignment: which rank reads each rank's bytes from the files.
#pragma once

#include <span>
#include <vector>

namespace sluice {

/// The reader of each rank. A reader also reads for itself, so that a rank either reads or receives, never
/// both.
class ReaderAssignment {
 public:
  /// Rank 0 reads for all ranks.
  [[nodiscard]] static ReaderAssignment rank0(int world);
  /// The lowest rank of each node reads for its node, for directories that every node has or sees.
  /// `node_of_rank` numbers the nodes in any way.
  [[nodiscard]] static ReaderAssignment node(std::span<const int> node_of_rank);
  /// Every rank reads what it owns, and nothing is sent.
  [[nodiscard]] static ReaderAssignment all(int world);

  [[nodiscard]] int world() const { return static_cast<int>(reader_of_.size()); }
  [[nodiscard]] int reader_of(int rank) const { return reader_of_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] bool is_reader(int rank) const { return reader_of(rank) == rank; }
  /// The ranks that read, ascending.
  [[nodiscard]] std::vector<int> readers() const;

 private:
  explicit ReaderAssignment(std::vector<int> reader_of) : reader_of_(std::move(reader_of)) {}
  std::vector<int> reader_of_;
};

}  // namespace sluice
