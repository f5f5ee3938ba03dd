#include "base/range.hpp"
#include "ops/cpu/tiles/attention.hpp"
#include "ops/cpu/tiles/packed_operand.hpp"
#include "ops/cpu/tiles/softmax.hpp"
#include "ops/cpu/tiles/work_sharing.hpp"
#include "ops/runtime/progress_hook.hpp"

#ifdef SLUICE_TILES

#include <algorithm>
#include <optional>
#include <vector>

namespace sluice::ops::cpu::tiles {
namespace {

/// Number of positions of a head, and of keys, in a panel.
constexpr std::int64_t kGradientPositions = 256, kGradientKeys = 256;

/// Keys and values, packed as left sides, and their gradients [length, width], both rounded up to multiples
/// of 32.
struct KeyGradients {
  explicit KeyGradients(const Heads& heads)
      : keys(by_position(heads.k, heads.length, heads.width, heads.key_stride), OperandSide::kLeft),
        values(by_position(heads.v, heads.length, heads.width, heads.key_stride), OperandSide::kLeft),
        keys_by_width(by_width(heads.k, heads.length, heads.width, heads.key_stride), OperandSide::kLeft),
        d_keys(round_up(heads.length, kBlock) * round_up(heads.width, kBlock)),
        d_values(round_up(heads.length, kBlock) * round_up(heads.width, kBlock)),
        turns(divide_up(heads.length, kBlock)) {}

  PackedOperand keys, values, keys_by_width;
  AlignedSums d_keys, d_values;
  OrderedAccumulation turns;  ///< Order in which queries add to a block of 32 keys.
};

/// Some positions of one head: their packed right sides, and other inputs of the backward pass.
struct QueryGradients {
  std::int64_t number, head, begin, end;  ///< `number` blocks of queries come before this one.
  PackedOperand queries, grads, queries_by_width, grads_by_width;
  std::vector<float> logsumexp, delta;  ///< Logsumexp and D of each query, see QueryTerms.
  /// Transposed gradients: [width rounded up to a multiple of 32, kGradientPositions].
  AlignedSums d_queries;
};

/// Probabilities and gradients of the scores for some positions: for 32 keys, with keys as lines, and for a
/// panel of keys, with positions as lines.
struct Panel {
  PackedOperand weights{kBlock, kGradientPositions};
  PackedOperand grads{kBlock, kGradientPositions};
  PackedOperand grads_by_query{kGradientPositions, kGradientKeys};
};

/// Fills the panel's tiles of 32 keys by 32 queries.
void block_gradients(const Heads& heads, const KeyGradients& k, const QueryGradients& q, Panel& panel,
                     std::int64_t first_key, std::int64_t key, std::int64_t position) {
  const std::int64_t query = position - q.begin;
  const BlockTiles weights = panel.weights.block(0, query);
  const BlockTiles grads = panel.grads.block(0, query);
  const BlockTiles grads_by_query = panel.grads_by_query.block(query, key - first_key);
  KeyBlock block;
  const std::int64_t depth = k.keys.depth_tiles();
  multiply(k.keys.rows(key), q.queries.rows(query), depth, block.scores.data(), kBlock, IntoSums::kReplacing);
  multiply(k.values.rows(key), q.grads.rows(query), depth, block.grads.data(), kBlock, IntoSums::kReplacing);
  std::array<std::uint32_t, kBlock> seen;
  const bool all = heads.all_see(position, key, key + kBlock);
  if (!all) heads.who_sees(position, key, key + kBlock, seen.data());
  gradients_of(block, {q.logsumexp.data() + query, q.delta.data() + query}, all ? nullptr : seen.data(),
               heads.log2_scale(), weights, grads, grads_by_query);
}

/// Adds to the gradients of 32 keys and of their values, whose tiles are in the panel. Only the queries
/// `some`, counted from the panel's first, attend to these keys.
void add_to_keys(const QueryGradients& q, const Panel& panel, const Range& some, std::int64_t key,
                 std::int64_t width, KeyGradients& k) {
  const std::int64_t from = some.begin, depth = divide_up(some.count(), kDepth);
  for (std::int64_t i = 0; i < width; i += kBlock) {
    const std::int64_t target = key * width + i;
    multiply(panel.weights.rows(0, from), q.grads_by_width.rows(i, from), depth, k.d_values.data() + target,
             width, IntoSums::kAdding);
    multiply(panel.grads.rows(0, from), q.queries_by_width.rows(i, from), depth, k.d_keys.data() + target,
             width, IntoSums::kAdding);
  }
}

void add_to_queries(const Heads& heads, const KeyGradients& k, const Panel& panel, std::int64_t first_key,
                    std::int64_t end_key, std::int64_t width, QueryGradients& q) {
  for (std::int64_t query = 0; query < q.end - q.begin; query += kBlock) {
    const std::int64_t begin = std::max(first_key, heads.first_block(q.begin + query));
    // The query does not attend to later keys.
    const std::int64_t last = std::min(end_key, q.begin + query + kBlock);
    if (last <= begin) continue;
    for (std::int64_t i = 0; i < width; i += kBlock)
      multiply(k.keys_by_width.rows(i, begin), panel.grads_by_query.rows(query, begin - first_key),
               (last - begin) / kDepth, q.d_queries.data() + i * kGradientPositions + query,
               kGradientPositions, IntoSums::kAdding);
  }
}

void panel_gradients(const Heads& heads, KeyGradients& k, QueryGradients& q, Panel& panel,
                     std::int64_t first_key, std::int64_t end_key) {
  const std::int64_t width = round_up(heads.width, kBlock);
  for (std::int64_t key = first_key; key < end_key; key += kBlock) {
    const std::int64_t begin = std::max(q.begin, key);  // Earlier queries do not attend to the keys.
    const std::int64_t end = std::max(begin, heads.end_of_seeing(begin, q.end, key + kBlock));
    for (std::int64_t position = begin; position < end; position += kBlock)
      block_gradients(heads, k, q, panel, first_key, key, position);
    // Queries add in the order of their positions. The first queries lie before the key and skip it, and
    // queries past its document or window skip it, as do all after them: the others add to it one after
    // another.
    k.turns.wait(key / kBlock, q.number - key / kGradientPositions * heads.group);
    add_to_keys(q, panel, {begin - q.begin, end - q.begin}, key, width, k);
    k.turns.end(key / kBlock);
  }
  add_to_queries(heads, k, panel, first_key, end_key, width, q);
}

QueryGradients queries_of(const TileGradients& d, std::int64_t number) {
  const Heads& heads = d.heads;
  const std::int64_t head = number % heads.group, begin = number / heads.group * kGradientPositions;
  const std::int64_t end = std::min(begin + kGradientPositions, heads.length);
  const std::int64_t offset = heads.query_offset(head, begin);
  const auto lines = [&](const std::uint16_t* data) {
    return PackedOperand(by_position(data + offset, end - begin, heads.width, heads.query_stride),
                         OperandSide::kRight);
  };
  const auto across = [&](const std::uint16_t* data) {
    return PackedOperand(by_width(data + offset, end - begin, heads.width, heads.query_stride),
                         OperandSide::kRight);
  };
  const float* logsumexp = heads.logsumexp + head * heads.length + begin;
  QueryGradients q{number,
                   head,
                   begin,
                   end,
                   lines(heads.q),
                   lines(d.d_out),
                   across(heads.q),
                   across(d.d_out),
                   {logsumexp, logsumexp + (end - begin)},
                   std::vector<float>(kGradientPositions),
                   AlignedSums(round_up(heads.width, kBlock) * kGradientPositions)};
  q.logsumexp.resize(kGradientPositions);
  for (std::int64_t i = 0; i < end - begin; ++i) {
    const std::int64_t row = offset + i * heads.query_stride;
    q.delta[static_cast<std::size_t>(i)] = dot(d.out + row, d.d_out + row, heads.width);
  }
  return q;
}

/// Returns the number of queries that are processed together: as many as stay in a core's second-level cache
/// while the keys are read; fewer if several threads share a key head, so that none waits long for its first
/// turn.
std::int64_t queries_at_a_time(const Heads& shape, std::int64_t queries, std::int64_t heads) {
  constexpr std::int64_t kCache = 1 << 20;
  const std::int64_t bytes = kGradientPositions * round_up(shape.width, kBlock) * (4 * 2 + 4);
  const std::int64_t most = std::max<std::int64_t>(1, kCache / bytes), threads = threads_per_head(heads);
  return threads > 1 ? std::clamp<std::int64_t>(queries / (8 * threads), 1, most) : most;
}

/// Multiplies some positions by all keys that they attend to.
void add_positions(const TileGradients& d, KeyGradients& k, std::vector<QueryGradients>& queries,
                   Panel& panel) {
  const Heads& heads = d.heads;
  const std::int64_t first = heads.first_block(queries.front().begin);
  for (std::int64_t key = first; key < queries.back().end; key += kGradientKeys)
    for (QueryGradients& q : queries) {
      const std::int64_t begin = std::max(key, heads.first_block(q.begin));
      const std::int64_t end = std::min(key + kGradientKeys, round_up(q.end, kBlock));
      if (begin < end) panel_gradients(heads, k, q, panel, begin, end);
      poll_progress();
    }
  for (const QueryGradients& q : queries)
    write_columns(q.d_queries.data(), kGradientPositions, q.end - q.begin, heads.width, heads.scale,
                  d.q + heads.query_offset(q.head, q.begin), heads.query_stride);
}

void write_key_gradients(const TileGradients& d, const KeyGradients& k, std::int64_t begin) {
  const Heads& heads = d.heads;
  for (std::int64_t position = begin; position < std::min(begin + kGradientPositions, heads.length);
       ++position) {
    const std::int64_t row = position * round_up(heads.width, kBlock);
    const std::int64_t target = position * heads.key_stride;
    write_row(k.d_keys.data() + row, heads.width, heads.scale, d.k + target);
    write_row(k.d_values.data() + row, heads.width, 1.0F, d.v + target);
  }
}

/// The work of one thread on some heads.
class Worker {
 public:
  Worker(std::span<const TileGradients> wave, std::vector<std::optional<KeyGradients>>& keys,
         std::int64_t queries, std::int64_t at_a_time)
      : wave_(wave), keys_(keys), queries_(queries), at_a_time_(at_a_time) {}

  void operator()(std::int64_t head, std::int64_t item) {
    const auto i = static_cast<std::size_t>(head);
    KeyGradients& k = *keys_[i];
    try {
      std::vector<QueryGradients> some;
      const std::int64_t end = std::min((item + 1) * at_a_time_, queries_);
      for (std::int64_t number = item * at_a_time_; number < end; ++number)
        some.push_back(queries_of(wave_[i], number));
      add_positions(wave_[i], k, some, panel_);
    } catch (...) {
      k.turns.abandon();
      throw;
    }
  }

 private:
  std::span<const TileGradients> wave_;
  std::vector<std::optional<KeyGradients>>& keys_;
  std::int64_t queries_, at_a_time_;
  Panel panel_;
};

void add_gradients(std::span<const TileGradients> wave) {
  const Heads& shape = wave[0].heads;
  const std::int64_t heads = std::ssize(wave), parts = divide_up(shape.length, kGradientPositions);
  std::vector<std::optional<KeyGradients>> keys(wave.size());
  const auto pack = [&](std::int64_t head, std::int64_t) {
    const auto i = static_cast<std::size_t>(head);
    keys[i].emplace(wave[i].heads);
  };
  share_out(heads, 1, [&] { return pack; });
  const std::int64_t queries = parts * shape.group;
  const std::int64_t at_a_time = queries_at_a_time(shape, queries, heads);
  share_out(heads, divide_up(queries, at_a_time), [&] { return Worker(wave, keys, queries, at_a_time); });
  const auto write = [&](std::int64_t head, std::int64_t part) {
    const auto i = static_cast<std::size_t>(head);
    write_key_gradients(wave[i], *keys[i], part * kGradientPositions);
  };
  share_out(heads, parts, [&] { return write; });
}

}  // namespace
}  // namespace sluice::ops::cpu::tiles

namespace sluice::ops::cpu {

void tile_attention_gradients(std::span<const TileGradients> all) {
  tiles::for_each_wave(all, [](std::span<const TileGradients> wave) { tiles::add_gradients(wave); });
}

}  // namespace sluice::ops::cpu

#endif
