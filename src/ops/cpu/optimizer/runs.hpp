// Runs of elements, chunk by chunk, threads sharing the chunks.
#pragma once

#include "ops/buffers/optimizer.hpp"
#include "ops/cpu/optimizer/formats.hpp"

#include <cstdint>
#include <functional>
#include <span>

namespace sluice::ops::cpu::optimizer {

/// Part of a run: `count` <= kChunk elements from the run's `offset`-th on.
struct Chunk {
  const UpdateRun* run = nullptr;
  std::int64_t offset = 0;
  std::int64_t count = 0;
};

/// Calls visit(chunk) for all of the runs' elements. Chunks begin at multiples of kStateBlock of a run.
void for_each_chunk(std::span<const UpdateRun> runs, const std::function<void(const Chunk&)>& visit);

}  // namespace sluice::ops::cpu::optimizer
