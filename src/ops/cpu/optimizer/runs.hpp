// Division of runs of elements into chunks, which threads share.
#pragma once

#include "ops/buffers/optimizer.hpp"
#include "ops/cpu/formats.hpp"

#include <cstdint>
#include <functional>
#include <span>

namespace sluice::ops::cpu::optimizer {

/// Part of a run: `count` <= kChunk elements from element `offset` of the run on.
struct Chunk {
  const UpdateRun* run = nullptr;
  std::int64_t offset = 0;
  std::int64_t count = 0;
};

/// Calls visit(chunk) for all elements of the runs. Chunks begin at multiples of kStateBlock in a run.
void for_each_chunk(std::span<const UpdateRun> runs, const std::function<void(const Chunk&)>& visit);

}  // namespace sluice::ops::cpu::optimizer
