#include "ops/cpu/tiles/attention.hpp"

#include "ops/cpu/tiles/packed_operand.hpp"
#include "ops/cpu/tiles/softmax.hpp"
#include "ops/cpu/tiles/work_sharing.hpp"
#include "ops/runtime/progress_hook.hpp"

#ifdef SLUICE_TILES

#include <algorithm>
#include <numbers>
#include <optional>
#include <vector>

namespace sluice::ops::cpu::tiles {
namespace {

/// Largest number of positions of each head of a group that are processed together, and the number of keys of
/// a pass: both stay in a core's second-level cache.
constexpr std::int64_t kPositions = 128, kPassKeys = 2048;

/// Keys and values, packed as left sides.
struct KeySides {
  explicit KeySides(const Heads& heads)
      : keys(by_position(heads.k, heads.length, heads.width, heads.key_stride), OperandSide::kLeft),
        values(by_width(heads.v, heads.length, heads.width, heads.key_stride), OperandSide::kLeft) {}

  PackedOperand keys, values;
};

/// 32 queries of one head, while they are multiplied by keys.
struct QueryBlock {
  std::int64_t head, begin;
  TileRows queries;
  float* output;  ///< Transposed output: [width rounded up to a multiple of 32, 32].
  RunningPowers powers;
};

/// Adds the attention to keys [begin, end) that the queries attend to.
void join_panel(const Heads& heads, const KeySides& sides, QueryBlock& block, std::int64_t begin,
                std::int64_t end) {
  begin = std::max(begin, heads.first_block(block.begin));
  end = std::min(end, block.begin + kBlock);
  if (begin >= end) return;
  PanelScores scores;
  for (std::int64_t key = begin; key < end; key += kBlock)
    multiply(sides.keys.rows(key), block.queries, sides.keys.depth_tiles(),
             scores.values.data() + (key - begin) * kBlock, kBlock, IntoSums::kReplacing);
  std::array<std::uint32_t, kPanelKeys> seen;
  const bool all = heads.all_see(block.begin, begin, end);
  if (!all) heads.who_sees(block.begin, begin, end, seen.data());
  const std::int64_t width = round_up(heads.width, kBlock);
  PanelWeights weights;
  block.powers.join(scores, end - begin, all ? nullptr : seen.data(), heads.log2_scale(), weights,
                    block.output, width);
  for (std::int64_t i = 0; i < width; i += kBlock)
    multiply(sides.values.rows(i, begin), {weights.data(), kPanelKeys / kDepth}, (end - begin) / kDepth,
             block.output + i * kBlock, kBlock, IntoSums::kAdding);
}

void write_output(const Heads& heads, const QueryBlock& block, std::uint16_t* out) {
  const std::int64_t count = std::min(kBlock, heads.length - block.begin);
  block.powers.finish(block.output, heads.width);
  write_columns(block.output, kBlock, count, heads.width, 1.0F,
                out + heads.query_offset(block.head, block.begin), heads.query_stride);
  for (std::int64_t i = 0; i < count; ++i)
    heads.logsumexp[block.head * heads.length + block.begin + i] = block.powers.logsumexp(i);
}

/// Computes attention for positions [begin, end) of all heads of the group.
void attend(const Heads& heads, const KeySides& sides, std::int64_t begin, std::int64_t end,
            std::uint16_t* out) {
  const std::int64_t block_numbers = kBlock * round_up(heads.width, kBlock);
  AlignedSums output(heads.group * divide_up(end - begin, kBlock) * block_numbers);
  std::vector<PackedOperand> queries;
  std::vector<QueryBlock> blocks;
  for (std::int64_t head = 0; head < heads.group; ++head) {
    queries.emplace_back(
        by_position(heads.q + heads.query_offset(head, begin), end - begin, heads.width, heads.query_stride),
        OperandSide::kRight);
    const RunningPowers powers = heads.sinks == nullptr
                                     ? RunningPowers()
                                     : RunningPowers(heads.sinks[head] * std::numbers::log2e_v<float>);
    for (std::int64_t first = 0; first < end - begin; first += kBlock)
      blocks.push_back({head, begin + first, queries.back().rows(first),
                        output.data() + std::ssize(blocks) * block_numbers, powers});
  }
  // Panels begin at multiples of their length, so that results do not depend on which positions are processed
  // together.
  const std::int64_t first_key = heads.first_key(begin) / kPanelKeys * kPanelKeys;
  for (std::int64_t pass = first_key; pass < end; pass += kPassKeys)
    for (QueryBlock& block : blocks) {
      for (std::int64_t key = pass; key < std::min(pass + kPassKeys, end); key += kPanelKeys)
        join_panel(heads, sides, block, key, key + kPanelKeys);
      poll_progress();
    }
  for (const QueryBlock& block : blocks) write_output(heads, block, out);
}

/// Returns the number of positions that are processed together: fewer if several threads share a head, so
/// that each thread gets parts of different cost.
std::int64_t positions_at_a_time(std::int64_t length, std::int64_t heads) {
  const std::int64_t threads = threads_per_head(heads);
  return threads > 1 ? std::clamp(length / (4 * threads) / kBlock * kBlock, kBlock, kPositions) : kPositions;
}

void attend(std::span<const TileAttention> wave) {
  const std::int64_t heads = std::ssize(wave), length = wave[0].heads.length;
  std::vector<std::optional<KeySides>> sides(wave.size());
  const auto pack = [&](std::int64_t head, std::int64_t) {
    const auto i = static_cast<std::size_t>(head);
    sides[i].emplace(wave[i].heads);
  };
  share_out(heads, 1, [&] { return pack; });
  const std::int64_t positions = positions_at_a_time(length, heads), parts = divide_up(length, positions);
  const std::int64_t wanted = parts - wave[0].first_query / positions;
  const auto work = [&](std::int64_t head, std::int64_t item) {
    const auto i = static_cast<std::size_t>(head);
    // Positions that attend to the most keys come first.
    const std::int64_t begin = (parts - 1 - item) * positions;
    attend(wave[i].heads, *sides[i], begin, std::min(begin + positions, length), wave[i].out);
  };
  share_out(heads, wanted, [&] { return work; });
}

}  // namespace
}  // namespace sluice::ops::cpu::tiles

namespace sluice::ops::cpu {

void tile_attention(std::span<const TileAttention> all) {
  tiles::for_each_wave(all, [](std::span<const TileAttention> wave) { tiles::attend(wave); });
}

}  // namespace sluice::ops::cpu

#else

#include "base/error.hpp"

namespace sluice::ops::cpu {

void tile_attention(std::span<const TileAttention>) {
  fail(ExitCode::kInternal, "this program was built without attention on matrix tiles");
}
void tile_attention_gradients(std::span<const TileGradients>) {
  fail(ExitCode::kInternal, "this program was built without attention on matrix tiles");
}

}  // namespace sluice::ops::cpu

#endif
