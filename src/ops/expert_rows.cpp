#include "base/compute_sizes.hpp"
#include "base/error.hpp"
#include "base/round.hpp"
#include "ops/matmul.hpp"
#include "ops/runtime/library.hpp"
#include "ops/runtime/processor_types.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

namespace sluice::ops {
namespace {

/// Rows of a matrix for `count` tokens: rounded up to a multiple of the 16 rows of a matrix tile, and beyond
/// 128 to a multiple of an eighth of the power of two below. The matrix library compiles and keeps a kernel
/// for every number of rows that it meets, which costs milliseconds and memory; so there must be few numbers.
std::int64_t padded_rows(std::int64_t count) {
  constexpr std::uint64_t kTile = 16;
  const std::uint64_t step = std::max(kTile, std::bit_floor(static_cast<std::uint64_t>(count)) / 8);
  return static_cast<std::int64_t>(round_up(static_cast<std::uint64_t>(count), step));
}

}  // namespace

ExpertRows::ExpertRows(const at::Tensor& chosen, std::int64_t first_expert, std::int64_t experts,
                       std::span<const Range> tokens, Join join) {
  SLUICE_ASSERT(chosen.is_contiguous() && chosen.scalar_type() == at::kInt &&
                    chosen.numel() <= std::numeric_limits<std::int32_t>::max(),
                "{} choices", chosen.numel());
  const at::Tensor choices = chosen.cpu();  // the tensor `chosen` itself, if it lies in main memory
  const auto* expert = static_cast<const std::int32_t*>(choices.data_ptr());
  const auto for_each_row = [&](const auto& visit) {
    for (const Range& range : tokens)
      for (std::int64_t slot = range.begin * chosen.size(1); slot < range.end * chosen.size(1); ++slot) {
        const std::int64_t local = expert[slot] - first_expert;
        if (local >= 0 && local < experts) visit(static_cast<std::size_t>(local), slot);
      }
  };

  // A counting sort keeps the rows of one expert in the order of tokens.
  std::vector<std::int64_t> begins(static_cast<std::size_t>(experts) + 1, 0);
  for_each_row([&](std::size_t local, std::int64_t) { ++begins[local + 1]; });
  for (std::size_t e = 0; e + 1 < begins.size(); ++e) begins[e + 1] += begins[e];
  slots_.resize(static_cast<std::size_t>(begins.back()));
  std::vector<std::int64_t> next(begins.begin(), begins.end() - 1);
  for_each_row([&](std::size_t local, std::int64_t slot) {
    slots_[static_cast<std::size_t>(next[local]++)] = static_cast<std::int32_t>(slot);
  });

  for (std::int64_t e = 0; e < experts; ++e) {
    const std::int64_t end = begins[static_cast<std::size_t>(e) + 1];
    for (std::int64_t begin = begins[static_cast<std::size_t>(e)]; begin < end; begin += kExpertBlockRows) {
      const std::int64_t count = std::min(kExpertBlockRows, end - begin);
      blocks_.push_back({slots_.data() + begin, count, padded_rows(count), {ExpertPart{e, 0, count}}});
    }
  }
  if (chosen.is_cpu()) {
    // One thread gains nothing, and reads each expert's matrices as they follow each other in memory.
    if (join == Join::kFewRowsToo && thread_count() > 1) join_blocks(kFewRows - 1, kExpertBlockRows);
    return;
  }
  join_blocks(kExpertBlockRows, kExpertGroupRows);
  place(chosen.device(), experts);
}

/// Joins blocks of at most `largest_joined` rows that follow each other, to at most `most_rows` rows.
void ExpertRows::join_blocks(std::int64_t largest_joined, std::int64_t most_rows) {
  std::vector<RowBlock> joined;
  bool is_open = false;  // Whether the last block takes others in.
  for (const RowBlock& block : blocks_) {
    const bool is_small = block.count <= largest_joined;
    if (!is_small) {
      joined.push_back(block);
      is_open = false;
      continue;
    }
    if (!is_open || joined.back().count + block.count > most_rows) joined.push_back({.slots = block.slots});
    is_open = true;
    RowBlock& last = joined.back();
    last.parts.push_back({block.parts.front().expert, last.count, block.count});
    last.padded = last.count += block.count;
  }
  blocks_ = std::move(joined);
}

void ExpertRows::place(at::Device device, std::int64_t experts) {
  const at::TensorOptions there(device);
  const at::Tensor places = at::from_blob(slots_.data(), {count()}, at::kInt).to(there.dtype(at::kLong));
  std::vector<std::int32_t> ends;
  for (const RowBlock& block : blocks_) {
    std::vector<std::int32_t> of_block(static_cast<std::size_t>(experts), 0);
    for (const ExpertPart& part : block.parts)
      of_block[static_cast<std::size_t>(part.expert)] += static_cast<std::int32_t>(part.count);
    std::partial_sum(of_block.begin(), of_block.end(), std::back_inserter(ends));
  }
  const at::Tensor all_ends =
      at::from_blob(ends.data(), {std::ssize(blocks_), experts}, at::kInt).to(there.dtype(at::kInt));
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    RowBlock& block = blocks_[i];
    block.places = places.narrow(0, block.slots - slots_.data(), block.count);
    block.ends = all_ends[static_cast<std::int64_t>(i)];
  }
}

std::int64_t ExpertRows::largest_block() const {
  std::int64_t largest = 0;
  for (const RowBlock& block : blocks_) largest = std::max(largest, block.padded);
  return largest;
}

}  // namespace sluice::ops
