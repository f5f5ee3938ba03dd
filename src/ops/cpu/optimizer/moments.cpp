#include "ops/arithmetic/moments.hpp"
#include "ops/cpu/kernel.hpp"
#include "ops/cpu/optimizer/optimizer.hpp"
#include "ops/cpu/optimizer/runs.hpp"

#include <algorithm>
#include <cmath>
#include <variant>

namespace sluice::ops::cpu {
namespace {

using arithmetic::AdamWFactors;
using arithmetic::LionFactors;
using optimizer::Chunk;

/// Number of elements that are read, computed and written before the next ones: few, so that a processor
/// overlaps two blocks and prefetches all arrays, and a multiple of the block that shares a scale.
constexpr std::int64_t kBlock = 2 * kStateBlock;

SLUICE_VECTOR_CLONES void update_chunk(const Chunk& chunk, const UpdateFormats& formats,
                                       const AdamWFactors& factors) {
  const AdamWFactors f = factors;
  for (std::int64_t begin = 0; begin < chunk.count; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, chunk.count - begin);
    if (count == kBlock)
      arithmetic::update_block<kBlock>(*chunk.run, formats, chunk.offset + begin, kBlock, f);
    else
      arithmetic::update_block<kBlock>(*chunk.run, formats, chunk.offset + begin, count, f);
  }
}

SLUICE_VECTOR_CLONES void update_chunk(const Chunk& chunk, const UpdateFormats& formats,
                                       const LionFactors& factors) {
  const LionFactors f = factors;
  for (std::int64_t begin = 0; begin < chunk.count; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, chunk.count - begin);
    arithmetic::update_block<kBlock>(*chunk.run, formats, chunk.offset + begin, count, f);
  }
}

}  // namespace

void update_moments(std::span<const UpdateRun> runs, const UpdateFormats& formats, const MomentStep& step) {
  std::visit(
      [&]<class Step>(const Step& constants) {
        optimizer::for_each_chunk(runs, [&](const Chunk& chunk) {
          update_chunk(chunk, formats, arithmetic::FactorsOf<Step>(constants, *chunk.run));
        });
      },
      step);
}

void read_master(const std::byte* weights, const std::byte* master, MasterFormat format, std::int64_t first,
                 std::int64_t n, float* out) {
  const auto* rounded = arithmetic::at_element<std::uint16_t>(weights, first);
  switch (format) {
    case MasterFormat::kFloat32:
      return optimizer::read_master32(rounded, arithmetic::at_element<std::int16_t>(master, first), n, out);
    case MasterFormat::k24Bit:
      return optimizer::read_master24(rounded, arithmetic::at_element<std::int8_t>(master, first), n, out);
    case MasterFormat::kNone:
      return optimizer::read_bfloat16(rounded, n, out);
  }
}

}  // namespace sluice::ops::cpu
