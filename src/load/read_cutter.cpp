#include "load/read_cutter.hpp"

#include <algorithm>

namespace sluice {

void ReadCutter::add(int file, int first, const Piece& piece) {
  const std::int64_t size = piece.atom_bytes();
  std::int64_t begin = piece.source;
  for (std::int64_t bytes = piece.bytes(); bytes > 0;) {
    if (read_.file != file || begin != read_.offset + read_.bytes) start(file, begin, first);
    const std::int64_t taken = std::min(bytes, (end_limit() - begin) / size * size);
    read_.bytes += taken;
    begin += taken;
    bytes -= taken;
    if (bytes > 0) start(file, begin, first);
  }
}

void ReadCutter::finish(std::vector<Read>& out) {
  start(-1, 0, 0);
  out.insert(out.end(), reads_.begin(), reads_.end());
}

void ReadCutter::start(int file, std::int64_t offset, int first) {
  if (read_.bytes > 0) reads_.push_back(read_);
  read_ = {reader_, file, offset, 0, first};
}

std::int64_t ReadCutter::end_limit() const {
  const std::int64_t full = read_.offset + chunk_bytes_;
  const std::int64_t aligned = full / LoadPlan::kBlockBytes * LoadPlan::kBlockBytes;
  return aligned - read_.offset >= chunk_bytes_ / 2 ? aligned : full;
}

}  // namespace sluice
