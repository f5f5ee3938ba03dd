#include "load/chunk_cutter.hpp"

#include <algorithm>

namespace sluice {

void ChunkCutter::add(int file, int first, const LoadMove& move) {
  const std::int64_t size = move.atom_bytes();
  std::int64_t begin = move.source;
  for (std::int64_t bytes = move.bytes(); bytes > 0;) {
    if (chunk_.file != file || begin != chunk_.offset + chunk_.bytes) start(file, begin, first);
    const std::int64_t taken = std::min(bytes, (end_limit() - begin) / size * size);
    chunk_.bytes += taken;
    begin += taken;
    bytes -= taken;
    if (bytes > 0) start(file, begin, first);
  }
}

void ChunkCutter::finish(std::vector<Chunk>& out) {
  start(-1, 0, 0);
  out.insert(out.end(), chunks_.begin(), chunks_.end());
}

void ChunkCutter::start(int file, std::int64_t offset, int first) {
  if (chunk_.bytes > 0) chunks_.push_back(chunk_);
  chunk_ = {reader_, file, offset, 0, first};
}

std::int64_t ChunkCutter::end_limit() const {
  const std::int64_t full = chunk_.offset + chunk_bytes_;
  const std::int64_t aligned = full / LoadPlan::kBlockBytes * LoadPlan::kBlockBytes;
  return aligned - chunk_.offset >= chunk_bytes_ / 2 ? aligned : full;
}

}  // namespace sluice
