// Cuts the elements of a file that one reader needs into chunks. Part of LoadPlan.
#pragma once

#include "load/load_plan.hpp"

#include <cstdint>
#include <vector>

namespace sluice {

/// Joins moves that touch in the file into chunks of at most `chunk_bytes`, which end on block borders
/// where they can.
class ChunkCutter {
 public:
  ChunkCutter(int reader, std::int64_t chunk_bytes) : reader_(reader), chunk_bytes_(chunk_bytes) {}

  /// Adds a move, in file order; `move.source` counts from the start of the file. `first` is the tensor to
  /// which the move belongs.
  void add(int file, int first, const LoadMove& move);

  /// Appends the chunks to `out`. Nothing may be added afterwards.
  void finish(std::vector<Chunk>& out);

 private:
  void start(int file, std::int64_t offset, int first);
  /// Byte at which the present chunk may end: the border of a block, unless that would make the chunk much
  /// shorter.
  [[nodiscard]] std::int64_t end_limit() const;

  int reader_;
  std::int64_t chunk_bytes_;
  Chunk chunk_{0, -1, 0, 0, 0};
  std::vector<Chunk> chunks_;
};

}  // namespace sluice
