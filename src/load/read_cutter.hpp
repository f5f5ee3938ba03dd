// Cuts the pieces of a file that one reader needs into reads. Part of LoadPlan.
#pragma once

#include "load/load_plan.hpp"

#include <cstdint>
#include <vector>

namespace sluice {

/// Joins pieces that touch into reads of at most a chunk, which end on block borders where they can.
class ReadCutter {
 public:
  ReadCutter(int reader, std::int64_t chunk_bytes) : reader_(reader), chunk_bytes_(chunk_bytes) {}

  /// Adds a piece, in file order; `piece.source` counts from the start of the file. `first` is the tensor to
  /// which the piece belongs.
  void add(int file, int first, const Piece& piece);

  /// Appends the reads to `out`. Nothing may be added afterwards.
  void finish(std::vector<Read>& out);

 private:
  void start(int file, std::int64_t offset, int first);
  /// Byte at which the present read may end: the border of a block, unless that would make the read much
  /// shorter.
  [[nodiscard]] std::int64_t end_limit() const;

  int reader_;
  std::int64_t chunk_bytes_;
  Read read_{0, -1, 0, 0, 0};
  std::vector<Read> reads_;
};

}  // namespace sluice
