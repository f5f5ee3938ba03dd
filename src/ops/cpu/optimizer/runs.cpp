#include "ops/cpu/optimizer/runs.hpp"

#include "base/round.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

namespace sluice::ops::cpu::optimizer {
namespace {

/// Least number of chunks for a thread: about 32 thousand elements.
constexpr std::int64_t kGrain = 32768 / kChunk;

}  // namespace

void for_each_chunk(std::span<const UpdateRun> runs, const std::function<void(const Chunk&)>& visit) {
  std::vector<std::int64_t> begins;  // Index of each run's first chunk.
  begins.reserve(runs.size());
  std::int64_t all = 0;
  for (const UpdateRun& run : runs) {
    begins.push_back(all);
    all += divide_up(run.count, kChunk);
  }
  at::parallel_for(0, all, kGrain, [&](std::int64_t begin, std::int64_t end) {
    auto number = static_cast<std::size_t>(std::ranges::upper_bound(begins, begin) - begins.begin()) - 1;
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
      while (number + 1 < runs.size() && begins[number + 1] <= chunk) ++number;
      const UpdateRun& run = runs[number];
      const std::int64_t offset = (chunk - begins[number]) * kChunk;
      visit({&run, offset, std::min(kChunk, run.count - offset)});
    }
  });
}

}  // namespace sluice::ops::cpu::optimizer
