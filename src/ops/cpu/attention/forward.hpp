// Causal attention, block by block: scores pass from one product through vector registers into a side of the
// next, and are never written to memory beyond a core's own caches. Internal to src/ops.
//
// A form says what the sides of products are and how they are multiplied (FloatForm in float_form.cpp, TileForm
// in tile_form.cpp). It has the class of numbers in memory (Number), what a thread holds while it multiplies
// (Held), packed sides (Side) with views of their lines (Rows), products of 32 by 32 sums (multiply), panels of
// scores (ForwardPanel, BackwardPanel) with the softmax over them (Softmax), and loops over rows. Scores are
// transposed, keys by queries, so that a vector register holds queries and no sum runs across a register.
#pragma once

#include "base/round.hpp"
#include "ops/cpu/attention/heads.hpp"
#include "ops/cpu/attention/work_sharing.hpp"
#include "ops/cpu/products/aligned_floats.hpp"
#include "ops/runtime/progress_hook.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numbers>
#include <optional>
#include <span>
#include <vector>

namespace sluice::ops::cpu::attention_blocks {

/// The forward pass of attention in a form.
template <class Form>
class ForwardPass {
  using Number = typename Form::Number;
  using Side = typename Form::Side;

 public:
  /// Computes attention of as many heads as there are threads, or fewer.
  static void attend(std::span<const HeadsForward<Number>> wave) {
    const std::int64_t heads = std::ssize(wave), length = wave[0].heads.length;
    std::vector<std::optional<KeySides>> sides(wave.size());
    const auto pack = [&](std::int64_t head, std::int64_t) {
      const auto i = static_cast<std::size_t>(head);
      sides[i].emplace(wave[i].heads);
    };
    share_out<typename Form::Held>(heads, 1, [&] { return pack; });
    const std::int64_t positions = positions_at_a_time(length, heads), parts = divide_up(length, positions);
    const std::int64_t wanted = parts - wave[0].first_query / positions;
    const auto work = [&](std::int64_t head, std::int64_t item) {
      const auto i = static_cast<std::size_t>(head);
      // Positions that attend to the most keys come first.
      const std::int64_t begin = (parts - 1 - item) * positions;
      attend(wave[i].heads, *sides[i], begin, std::min(begin + positions, length), wave[i].out);
    };
    share_out<typename Form::Held>(heads, wanted, [&] { return work; });
  }

 private:
  /// Largest number of positions of each head of a group that are processed together.
  static constexpr std::int64_t kPositions = 128;

  /// Keys and values, packed as left sides.
  struct KeySides {
    explicit KeySides(const Heads<Number>& h)
        : keys(Form::pack(h.key_lines(h.k), OperandSide::kLeft)),
          values(Form::pack(h.key_lines(h.v).turned(), OperandSide::kLeft)) {}

    Side keys, values;
  };

  /// 32 queries of one head, while they are multiplied by keys.
  struct QueryBlock {
    std::int64_t head, begin;
    typename Form::Rows queries;
    float* output;  ///< Transposed output: [width rounded up to a multiple of 32, 32].
    typename Form::Softmax softmax;
  };

  /// Returns the number of positions that are processed together: fewer if several threads share a head, so
  /// that each thread gets parts of different cost.
  static std::int64_t positions_at_a_time(std::int64_t length, std::int64_t heads) {
    const std::int64_t threads = threads_per_head(heads);
    return threads > 1 ? std::clamp(length / (4 * threads) / kBlock * kBlock, kBlock, kPositions)
                       : kPositions;
  }

  /// Adds the attention to keys [begin, end) that the queries attend to.
  static void join_panel(const Heads<Number>& heads, const KeySides& sides, QueryBlock& block,
                         std::int64_t begin, std::int64_t end) {
    begin = std::max(begin, heads.first_block(block.begin));
    end = std::min(end, block.begin + kBlock);
    if (begin >= end) return;
    typename Form::ForwardPanel panel;
    for (std::int64_t key = begin; key < end; key += kBlock)
      panel.set_scores(key - begin, sides.keys.rows(key), block.queries, heads.width);
    std::array<std::uint32_t, kPanelKeys> seen;
    const bool all = heads.all_see(block.begin, begin, end);
    if (!all) heads.who_sees(block.begin, begin, end, seen.data());
    const std::int64_t width = round_up(heads.width, kBlock);
    panel.join(block.softmax, end - begin, all ? nullptr : seen.data(), heads.log2_scale(), block.output,
               width);
    for (std::int64_t i = 0; i < width; i += kBlock)
      Form::multiply(sides.values.rows(i, begin), panel.weights(), end - begin, block.output + i * kBlock,
                     kBlock, IntoSums::kAdding);
  }

  static void write_output(const Heads<Number>& heads, const QueryBlock& block, Number* out) {
    const std::int64_t count = std::min(kBlock, heads.length - block.begin);
    block.softmax.finish(block.output, heads.width);
    Form::write_columns(block.output, kBlock, count, heads.width, 1.0F,
                        out + heads.query_offset(block.head, block.begin), heads.query_stride);
    for (std::int64_t i = 0; i < count; ++i)
      heads.logsumexp[block.head * heads.length + block.begin + i] = block.softmax.logsumexp(i);
  }

  /// Computes attention for positions [begin, end) of all heads of the group.
  static void attend(const Heads<Number>& heads, const KeySides& sides, std::int64_t begin, std::int64_t end,
                     Number* out) {
    const std::int64_t block_numbers = kBlock * round_up(heads.width, kBlock);
    AlignedFloats output(heads.group * divide_up(end - begin, kBlock) * block_numbers);
    std::vector<Side> queries;
    std::vector<QueryBlock> blocks;
    for (std::int64_t head = 0; head < heads.group; ++head) {
      queries.push_back(Form::pack(heads.query_lines(heads.q, head, begin, end), OperandSide::kRight));
      const auto softmax = heads.sinks == nullptr
                               ? typename Form::Softmax()
                               : typename Form::Softmax(heads.sinks[head] * std::numbers::log2e_v<float>);
      for (std::int64_t first = 0; first < end - begin; first += kBlock)
        blocks.push_back({head, begin + first, queries.back().rows(first),
                          output.data() + std::ssize(blocks) * block_numbers, softmax});
    }
    // Panels begin at multiples of their length, so that results do not depend on which positions are
    // processed together.
    const std::int64_t first_key = heads.first_key(begin) / kPanelKeys * kPanelKeys;
    for (std::int64_t pass = first_key; pass < end; pass += Form::kPassKeys)
      for (QueryBlock& block : blocks) {
        for (std::int64_t key = pass; key < std::min(pass + Form::kPassKeys, end); key += kPanelKeys)
          join_panel(heads, sides, block, key, key + kPanelKeys);
        poll_progress();
      }
    for (const QueryBlock& block : blocks) write_output(heads, block, out);
  }
};

/// Computes attention of heads that differ in their data and documents only. Shares them among all threads,
/// with the same results for any number of threads.
template <class Form>
void attend_all(std::span<const HeadsForward<typename Form::Number>> all) {
  for_each_wave(all, [](auto wave) { ForwardPass<Form>::attend(wave); });
}

}  // namespace sluice::ops::cpu::attention_blocks
