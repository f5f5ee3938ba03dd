// The backward pass of attention, block by block, in a form; see forward.hpp. Internal to src/ops.
#pragma once

#include "base/range.hpp"
#include "base/round.hpp"
#include "ops/cpu/attention/heads.hpp"
#include "ops/cpu/attention/work_sharing.hpp"
#include "ops/cpu/products/aligned_floats.hpp"
#include "ops/runtime/progress_hook.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sluice::ops::cpu::attention_blocks {

/// The backward pass of attention in a form.
template <class Form>
class BackwardPass {
  using Number = typename Form::Number;
  using Side = typename Form::Side;
  using Panel = typename Form::BackwardPanel;
  using KeyHeads = Heads<Number>;

 public:
  /// Computes the gradients of as many heads as there are threads, or fewer.
  static void add_gradients(std::span<const HeadsBackward<Number>> wave) {
    const KeyHeads& shape = wave[0].heads;
    const std::int64_t heads = std::ssize(wave), parts = divide_up(shape.length, kGradientPositions);
    std::vector<std::optional<KeyGradients>> keys(wave.size());
    const auto pack = [&](std::int64_t head, std::int64_t) {
      const auto i = static_cast<std::size_t>(head);
      keys[i].emplace(wave[i].heads);
    };
    share_out<typename Form::Held>(heads, 1, [&] { return pack; });
    const std::int64_t queries = parts * shape.group;
    const std::int64_t at_a_time = queries_at_a_time(shape, queries, heads);
    share_out<typename Form::Held>(heads, divide_up(queries, at_a_time),
                                   [&] { return Worker(wave, keys, queries, at_a_time); });
    const auto write = [&](std::int64_t head, std::int64_t part) {
      const auto i = static_cast<std::size_t>(head);
      write_key_gradients(wave[i], *keys[i], part * kGradientPositions);
    };
    share_out<typename Form::Held>(heads, parts, [&] { return write; });
  }

 private:
  /// Keys and values, packed as left sides, and their gradients [length, width], both rounded up to multiples
  /// of 32.
  struct KeyGradients {
    explicit KeyGradients(const KeyHeads& heads)
        : keys(Form::pack(heads.key_lines(heads.k), OperandSide::kLeft)),
          values(Form::pack(heads.key_lines(heads.v), OperandSide::kLeft)),
          keys_by_width(Form::pack(heads.key_lines(heads.k).turned(), OperandSide::kLeft)),
          d_keys(round_up(heads.length, kBlock) * round_up(heads.width, kBlock)),
          d_values(round_up(heads.length, kBlock) * round_up(heads.width, kBlock)),
          turns(divide_up(heads.length, kBlock)) {}

    Side keys, values, keys_by_width;
    AlignedFloats d_keys, d_values;
    OrderedAccumulation turns;  ///< Order in which queries add to a block of 32 keys.
  };

  /// Some positions of one head: their packed right sides, and other inputs of the backward pass.
  struct QueryGradients {
    std::int64_t number, head, begin, end;  ///< `number` blocks of queries come before this one.
    Side queries, grads, queries_by_width, grads_by_width;
    std::vector<float> logsumexp, delta;  ///< Logsumexp and D of each query, see QueryTerms.
    /// Transposed gradients: [width rounded up to a multiple of 32, kGradientPositions].
    AlignedFloats d_queries;
  };

  /// Fills the panel's block of 32 keys by 32 queries.
  static void block_gradients(const KeyHeads& heads, const KeyGradients& k, const QueryGradients& q,
                              Panel& panel, std::int64_t first_key, std::int64_t key, std::int64_t position) {
    const std::int64_t query = position - q.begin;
    std::array<std::uint32_t, kBlock> seen;
    const bool all = heads.all_see(position, key, key + kBlock);
    if (!all) heads.who_sees(position, key, key + kBlock, seen.data());
    panel.set_block(query, key - first_key, {k.keys.rows(key), q.queries.rows(query)},
                    {k.values.rows(key), q.grads.rows(query)}, heads.width,
                    {q.logsumexp.data() + query, q.delta.data() + query}, all ? nullptr : seen.data(),
                    heads.log2_scale());
  }

  /// Adds to the gradients of 32 keys and of their values, whose probabilities and gradients of scores are in the
  /// panel. Only the queries `some`, counted from the panel's first, attend to these keys.
  static void add_to_keys(const QueryGradients& q, const Panel& panel, const Range& some, std::int64_t key,
                          std::int64_t width, KeyGradients& k) {
    const std::int64_t from = some.begin, depth = some.count();
    for (std::int64_t i = 0; i < width; i += kBlock) {
      const std::int64_t target = key * width + i;
      Form::multiply(panel.weights(from), q.grads_by_width.rows(i, from), depth, k.d_values.data() + target,
                     width, IntoSums::kAdding);
      Form::multiply(panel.grads(from), q.queries_by_width.rows(i, from), depth, k.d_keys.data() + target,
                     width, IntoSums::kAdding);
    }
  }

  static void add_to_queries(const KeyHeads& heads, const KeyGradients& k, const Panel& panel,
                             std::int64_t first_key, std::int64_t end_key, std::int64_t width,
                             QueryGradients& q) {
    for (std::int64_t query = 0; query < q.end - q.begin; query += kBlock) {
      const std::int64_t begin = std::max(first_key, heads.first_block(q.begin + query));
      // The query does not attend to later keys.
      const std::int64_t last = std::min(end_key, q.begin + query + kBlock);
      if (last <= begin) continue;
      for (std::int64_t i = 0; i < width; i += kBlock)
        Form::multiply(k.keys_by_width.rows(i, begin), panel.grads_by_query(query, begin - first_key),
                       last - begin, q.d_queries.data() + i * kGradientPositions + query, kGradientPositions,
                       IntoSums::kAdding);
    }
  }

  static void panel_gradients(const KeyHeads& heads, KeyGradients& k, QueryGradients& q, Panel& panel,
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

  static QueryGradients queries_of(const HeadsBackward<Number>& d, std::int64_t number) {
    const KeyHeads& heads = d.heads;
    const std::int64_t head = number % heads.group, begin = number / heads.group * kGradientPositions;
    const std::int64_t end = std::min(begin + kGradientPositions, heads.length);
    const std::int64_t offset = heads.query_offset(head, begin);
    const auto queries = heads.query_lines(heads.q, head, begin, end);
    const auto grads = heads.query_lines(d.d_out, head, begin, end);
    const float* logsumexp = heads.logsumexp + head * heads.length + begin;
    QueryGradients q{number,
                     head,
                     begin,
                     end,
                     Form::pack(queries, OperandSide::kRight),
                     Form::pack(grads, OperandSide::kRight),
                     Form::pack(queries.turned(), OperandSide::kRight),
                     Form::pack(grads.turned(), OperandSide::kRight),
                     {logsumexp, logsumexp + (end - begin)},
                     std::vector<float>(kGradientPositions),
                     AlignedFloats(round_up(heads.width, kBlock) * kGradientPositions)};
    q.logsumexp.resize(kGradientPositions);
    for (std::int64_t i = 0; i < end - begin; ++i) {
      const std::int64_t row = offset + i * heads.query_stride;
      q.delta[static_cast<std::size_t>(i)] = Form::dot(d.out + row, d.d_out + row, heads.width);
    }
    return q;
  }

  /// Returns the number of queries that are processed together: as many as stay in a core's second-level cache
  /// while the keys are read; fewer if several threads share a key head, so that none waits long for its first
  /// turn.
  static std::int64_t queries_at_a_time(const KeyHeads& shape, std::int64_t queries, std::int64_t heads) {
    constexpr std::int64_t kCache = 1 << 20;
    const std::int64_t bytes =
        kGradientPositions * round_up(shape.width, kBlock) * (4 * Form::kPackedBytes + 4);
    const std::int64_t most = std::max<std::int64_t>(1, kCache / bytes), threads = threads_per_head(heads);
    return threads > 1 ? std::clamp<std::int64_t>(queries / (8 * threads), 1, most) : most;
  }

  /// Multiplies some positions by all keys that they attend to.
  static void add_positions(const HeadsBackward<Number>& d, KeyGradients& k,
                            std::vector<QueryGradients>& queries, Panel& panel) {
    const KeyHeads& heads = d.heads;
    // Panels begin at multiples of their length, as the chunks of a side do.
    const std::int64_t first = heads.first_key(queries.front().begin) / kGradientKeys * kGradientKeys;
    for (std::int64_t key = first; key < queries.back().end; key += kGradientKeys)
      for (QueryGradients& q : queries) {
        const std::int64_t begin = std::max(key, heads.first_block(q.begin));
        const std::int64_t end = std::min(key + kGradientKeys, round_up(q.end, kBlock));
        if (begin < end) panel_gradients(heads, k, q, panel, begin, end);
        poll_progress();
      }
    for (const QueryGradients& q : queries)
      Form::write_columns(q.d_queries.data(), kGradientPositions, q.end - q.begin, heads.width, heads.scale,
                          d.q + heads.query_offset(q.head, q.begin), heads.query_stride);
  }

  static void write_key_gradients(const HeadsBackward<Number>& d, const KeyGradients& k, std::int64_t begin) {
    const KeyHeads& heads = d.heads;
    for (std::int64_t position = begin; position < std::min(begin + kGradientPositions, heads.length);
         ++position) {
      const std::int64_t row = position * round_up(heads.width, kBlock);
      const std::int64_t target = position * heads.key_stride;
      Form::write_row(k.d_keys.data() + row, heads.width, heads.scale, d.k + target);
      Form::write_row(k.d_values.data() + row, heads.width, 1.0F, d.v + target);
    }
  }

  /// The work of one thread on some heads.
  class Worker {
   public:
    Worker(std::span<const HeadsBackward<Number>> wave, std::vector<std::optional<KeyGradients>>& keys,
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
    std::span<const HeadsBackward<Number>> wave_;
    std::vector<std::optional<KeyGradients>>& keys_;
    std::int64_t queries_, at_a_time_;
    Panel panel_;
  };
};

/// Computes the gradients of attend_all(), of the same heads.
template <class Form>
void differentiate_all(std::span<const HeadsBackward<typename Form::Number>> all) {
  for_each_wave(all, [](auto wave) { BackwardPass<Form>::add_gradients(wave); });
}

}  // namespace sluice::ops::cpu::attention_blocks
