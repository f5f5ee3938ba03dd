#include "base/compute_sizes.hpp"
#include "base/error.hpp"
#include "base/round.hpp"
#include "ops/runtime/processor_types.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <bit>
#include <limits>

namespace sluice::ops {
namespace {

/// Rows that matrices for `count` tokens have: a multiple of the 16 rows of a matrix tile, and beyond 128 of
/// an eighth of the power of two below. The matrix library compiles a kernel for every number of rows it
/// meets and keeps it, which costs milliseconds and memory; so there must be few numbers.
std::int64_t padded_rows(std::int64_t count) {
  constexpr std::uint64_t kTile = 16;
  const std::uint64_t step = std::max(kTile, std::bit_floor(static_cast<std::uint64_t>(count)) / 8);
  return static_cast<std::int64_t>(round_up(static_cast<std::uint64_t>(count), step));
}

}  // namespace

ExpertRows::ExpertRows(const at::Tensor& chosen, std::int64_t first_expert, std::int64_t experts,
                       std::span<const Range> tokens) {
  SLUICE_ASSERT(chosen.is_contiguous() && chosen.scalar_type() == at::kInt &&
                    chosen.numel() <= std::numeric_limits<std::int32_t>::max(),
                "{} choices", chosen.numel());
  const at::Tensor choices = chosen.cpu();  // chosen itself, if it lies there
  const auto* expert = static_cast<const std::int32_t*>(choices.data_ptr());
  const auto for_each_row = [&](const auto& visit) {
    for (const Range& range : tokens)
      for (std::int64_t slot = range.begin * chosen.size(1); slot < range.end * chosen.size(1); ++slot) {
        const std::int64_t local = expert[slot] - first_expert;
        if (local >= 0 && local < experts) visit(static_cast<std::size_t>(local), slot);
      }
  };

  // Counting sort, so that rows of one expert stay in the order of tokens.
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
      blocks_.push_back({e, slots_.data() + begin, count, padded_rows(count)});
    }
  }
  if (!chosen.is_cpu()) place(chosen.device());
}

void ExpertRows::place(at::Device device) {
  const at::Tensor places =
      at::from_blob(slots_.data(), {count()}, at::kInt).to(at::TensorOptions(device).dtype(at::kLong));
  for (RowBlock& block : blocks_) block.places = places.narrow(0, block.slots - slots_.data(), block.count);
}

std::int64_t ExpertRows::largest_block() const {
  std::int64_t largest = 0;
  for (const RowBlock& block : blocks_) largest = std::max(largest, block.padded);
  return largest;
}

}  // namespace sluice::ops
