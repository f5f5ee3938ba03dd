#include "ops/cpu/channel_decays.hpp"

#include "base/round.hpp"
#include "ops/cpu/kernel.hpp"
#include "ops/cpu/lanes.hpp"
#include "ops/cpu/scan_decays.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

namespace sluice::ops::cpu {
namespace {

/// Vectors whose sums are in registers at once, and the channels in them, of which rows here have a multiple.
constexpr std::int64_t kVectorsAtOnce = 4, kChannelsAtOnce = kVectorsAtOnce * kLanes;
/// Columns of products whose sums are in registers at once, for queries and for keys.
constexpr std::int64_t kColumnsAtOnce = 4;

/// Consecutive tokens of which those from `middle` on read what those before it have written.
struct Halves {
  std::int64_t begin, middle, end;
};

void append_halves(std::int64_t begin, std::int64_t end, std::vector<Halves>& all) {
  if (end - begin < 2) return;
  const std::int64_t middle = begin + (end - begin) / 2;
  all.push_back({begin, middle, end});
  append_halves(begin, middle, all);
  append_halves(middle, end, all);
}

/// All pairs of halves, in which every two of the tokens are in different halves once.
std::vector<Halves> halves_of(std::int64_t tokens) {
  std::vector<Halves> all;
  append_halves(0, tokens, all);
  return all;
}

/// Rows of one head's tokens, with zeros behind their channels up to a whole number of vectors.
struct TokenRows {
  TokenRows(std::int64_t tokens, std::int64_t channels)
      : width(round_up(channels, kChannelsAtOnce)), values(static_cast<std::size_t>(tokens * width)) {}

  float* operator[](std::int64_t token) { return values.data() + token * width; }
  const float* operator[](std::int64_t token) const { return values.data() + token * width; }

  void read(const float* from, std::int64_t tokens, std::int64_t channels) {
    for (std::int64_t t = 0; t < tokens; ++t) std::copy_n(from + t * channels, channels, (*this)[t]);
  }
  void write(std::int64_t tokens, std::int64_t channels, float* to) const {
    for (std::int64_t t = 0; t < tokens; ++t) std::copy_n((*this)[t], channels, to + t * channels);
  }

  std::int64_t width;
  std::vector<float> values;
};

/// Sets factors[i] = e^sums[i], then adds a row to the sums.
SLUICE_ELEMENT void decay_and_add(float* sums, const float* added, std::int64_t width, float* factors) {
  for (std::int64_t i = 0; i < width; ++i) {
    factors[i] = state_decay(sums[i]);
    sums[i] += added[i];
  }
}

/// Sets factors[i] = e^sums[i] after a row is added to the sums.
SLUICE_ELEMENT void add_and_decay(float* sums, const float* added, std::int64_t width, float* factors) {
  for (std::int64_t i = 0; i < width; ++i) {
    sums[i] += added[i];
    factors[i] = state_decay(sums[i]);
  }
}

/// Rows of one head, and those of a pair of halves decayed from the middle or to it; or the gradients of both.
struct HeadRows {
  HeadRows(std::int64_t tokens, std::int64_t width)
      : q(tokens, width),
        k(tokens, width),
        log_decay(tokens, width),
        decayed_q(tokens, width),
        decayed_k(tokens, width) {}

  TokenRows q, k, log_decay, decayed_q, decayed_k;
};

/// One head with the decays of its rows.
struct DecayedHead : HeadRows {
  DecayedHead(std::int64_t tokens, std::int64_t width)
      : HeadRows(tokens, width), factors(tokens, width), sums(static_cast<std::size_t>(q.width)) {}

  TokenRows factors;
  std::vector<float> sums;
};

/// Computes factors and decayed keys of both halves, and decayed queries of the second one.
SLUICE_VECTOR_CLONES void decay_halves(const Halves& halves, DecayedHead& head) {
  const std::int64_t width = head.q.width;
  float* const sums = head.sums.data();
  std::fill_n(sums, width, 0.0F);
  for (std::int64_t t = halves.middle; t < halves.end; ++t) {
    add_and_decay(sums, head.log_decay[t], width, head.factors[t]);
    const float *factors = head.factors[t], *q = head.q[t];
    float* const decayed = head.decayed_q[t];
    for (std::int64_t i = 0; i < width; ++i) decayed[i] = factors[i] * q[i];
  }
  std::fill_n(sums, width, 0.0F);
  for (std::int64_t t = halves.middle - 1; t >= halves.begin; --t)
    decay_and_add(sums, head.log_decay[t], width, head.factors[t]);
  const float *factors = head.factors[halves.begin], *k = head.k[halves.begin];
  float* const decayed = head.decayed_k[halves.begin];
  for (std::int64_t i = 0; i < (halves.end - halves.begin) * width; ++i) decayed[i] = factors[i] * k[i];
}

/// Sums the products of a decayed query and of a decayed key with kColumns decayed keys.
template <std::int64_t kColumns>
SLUICE_ELEMENT void multiply_columns(const float* q, const float* k, const float* columns, std::int64_t width,
                                     float* of_query, float* of_key) {
  Lanes sums[2 * kColumns] = {};
  for (std::int64_t i = 0; i < width; i += kLanes) {
    Lanes query, key;
    read_lanes(q + i, query);
    read_lanes(k + i, key);
    for (std::int64_t c = 0; c < kColumns; ++c) {
      Lanes column;
      read_lanes(columns + c * width + i, column);
      sums[c] += query * column;
      sums[kColumns + c] += key * column;
    }
  }
  std::array<float, 2 * kColumns> found;
  sums_of<2 * kColumns>(sums, found.data());
  std::copy_n(found.data(), kColumns, of_query);
  std::copy_n(found.data() + kColumns, kColumns, of_key);
}

/// Products [t, t] of one head; or their gradients.
template <class T>
struct HeadProducts {
  T *of_queries, *of_keys;
  std::int64_t tokens;
};

SLUICE_VECTOR_CLONES void multiply_halves(const Halves& halves, const DecayedHead& head,
                                          const HeadProducts<float>& out) {
  const std::int64_t width = head.q.width;
  for (std::int64_t row = halves.middle; row < halves.end; ++row) {
    const float *q = head.decayed_q[row], *k = head.decayed_k[row];
    float *of_query = out.of_queries + row * out.tokens, *of_key = out.of_keys + row * out.tokens;
    std::int64_t column = halves.begin;
    for (; column + kColumnsAtOnce <= halves.middle; column += kColumnsAtOnce)
      multiply_columns<kColumnsAtOnce>(q, k, head.decayed_k[column], width, of_query + column,
                                       of_key + column);
    for (; column < halves.middle; ++column)
      multiply_columns<1>(q, k, head.decayed_k[column], width, of_query + column, of_key + column);
  }
}

SLUICE_ELEMENT void write_vectors(const Lanes* vectors, float* to) {
  std::memcpy(to, vectors, kVectorsAtOnce * sizeof(Lanes));
}

/// Gradients of the decayed rows of the second half: of each, the columns times the gradients of its products.
SLUICE_VECTOR_CLONES void decayed_row_gradients(const Halves& halves, const DecayedHead& head,
                                                const HeadProducts<const float>& d, HeadRows& grads) {
  const std::int64_t width = head.q.width;
  for (std::int64_t row = halves.middle; row < halves.end; ++row) {
    const float *of_query = d.of_queries + row * d.tokens, *of_key = d.of_keys + row * d.tokens;
    for (std::int64_t first = 0; first < width; first += kChannelsAtOnce) {
      Lanes d_q[kVectorsAtOnce] = {}, d_k[kVectorsAtOnce] = {};
      for (std::int64_t column = halves.begin; column < halves.middle; ++column)
        for (std::int64_t v = 0; v < kVectorsAtOnce; ++v) {
          Lanes key;
          read_lanes(head.decayed_k[column] + first + v * kLanes, key);
          d_q[v] += key * of_query[column];
          d_k[v] += key * of_key[column];
        }
      write_vectors(d_q, grads.decayed_q[row] + first);
      write_vectors(d_k, grads.decayed_k[row] + first);
    }
  }
}

/// Gradients of the decayed keys of the first half, from all rows of the second one.
SLUICE_VECTOR_CLONES void decayed_column_gradients(const Halves& halves, const DecayedHead& head,
                                                   const HeadProducts<const float>& d, HeadRows& grads) {
  const std::int64_t width = head.q.width;
  for (std::int64_t column = halves.begin; column < halves.middle; ++column)
    for (std::int64_t first = 0; first < width; first += kChannelsAtOnce) {
      Lanes d_k[kVectorsAtOnce] = {};
      for (std::int64_t row = halves.middle; row < halves.end; ++row)
        for (std::int64_t v = 0; v < kVectorsAtOnce; ++v) {
          Lanes query, key;
          read_lanes(head.decayed_q[row] + first + v * kLanes, query);
          read_lanes(head.decayed_k[row] + first + v * kLanes, key);
          d_k[v] += query * d.of_queries[row * d.tokens + column] + key * d.of_keys[row * d.tokens + column];
        }
      write_vectors(d_k, grads.decayed_k[column] + first);
    }
}

/// Adds what a pair of halves contributes to the gradients of rows. A row's exponent is the sum of log decays between
/// it and the middle, so that each of them gets what all rows beyond it give.
SLUICE_VECTOR_CLONES void add_halves(const Halves& halves, DecayedHead& head, HeadRows& grads) {
  const std::int64_t width = head.q.width;
  float* const sums = head.sums.data();
  std::fill_n(sums, width, 0.0F);
  for (std::int64_t t = halves.end - 1; t >= halves.middle; --t) {
    const float *d_q = grads.decayed_q[t], *d_k = grads.decayed_k[t], *factors = head.factors[t];
    const float *q = head.decayed_q[t], *k = head.decayed_k[t];
    float *q_sum = grads.q[t], *k_sum = grads.k[t], *decay_sum = grads.log_decay[t];
    for (std::int64_t i = 0; i < width; ++i) {
      sums[i] += d_q[i] * q[i] + d_k[i] * k[i];
      q_sum[i] += d_q[i] * factors[i];
      k_sum[i] += d_k[i] * factors[i];
      decay_sum[i] += sums[i];
    }
  }
  std::fill_n(sums, width, 0.0F);
  for (std::int64_t t = halves.begin; t < halves.middle; ++t) {
    const float *d_k = grads.decayed_k[t], *factors = head.factors[t], *k = head.decayed_k[t];
    float *k_sum = grads.k[t], *decay_sum = grads.log_decay[t];
    for (std::int64_t i = 0; i < width; ++i) {
      decay_sum[i] += sums[i];
      sums[i] += d_k[i] * k[i];
      k_sum[i] += d_k[i] * factors[i];
    }
  }
}

/// Calls visit(head, its rows) for each head with the rows of the inputs in place; threads share the heads.
template <class Visit>
void for_each_head(const ChannelInputs& inputs, const Visit& visit) {
  const std::int64_t tokens = inputs.q.size(2), width = inputs.q.size(3), elements = tokens * width;
  at::parallel_for(0, inputs.q.size(0) * inputs.q.size(1), kernel::grain(elements),
                   [&](std::int64_t begin, std::int64_t end) {
                     DecayedHead rows(tokens, width);
                     for (std::int64_t head = begin; head < end; ++head) {
                       rows.q.read(inputs.q.data_ptr<float>() + head * elements, tokens, width);
                       rows.k.read(inputs.k.data_ptr<float>() + head * elements, tokens, width);
                       rows.log_decay.read(inputs.log_decay.data_ptr<float>() + head * elements, tokens,
                                           width);
                       visit(head, rows);
                     }
                   });
}

}  // namespace

void channel_products(const ChannelInputs& inputs, const ChannelProducts& products) {
  const std::int64_t tokens = inputs.q.size(2), width = inputs.q.size(3);
  const std::vector<Halves> all = halves_of(tokens);
  for_each_head(inputs, [&](std::int64_t head, DecayedHead& rows) {
    const HeadProducts<float> out{products.of_queries.data_ptr<float>() + head * tokens * tokens,
                                  products.of_keys.data_ptr<float>() + head * tokens * tokens, tokens};
    for (const Halves& halves : all) {
      decay_halves(halves, rows);
      multiply_halves(halves, rows, out);
    }
    for (std::int64_t t = 0; t < tokens; ++t) {
      float *of_query = out.of_queries + t * tokens, *of_key = out.of_keys + t * tokens;
      std::fill(of_query + t, of_query + tokens, 0.0F);
      std::fill(of_key + t, of_key + tokens, 0.0F);
      of_query[t] = kernel::dot(rows.q[t], rows.k[t], width);
    }
  });
}

void channel_products_backward(const ChannelInputs& inputs, const ChannelProducts& d_products,
                               const ChannelInputs& grads) {
  const std::int64_t tokens = inputs.q.size(2), width = inputs.q.size(3), elements = tokens * width;
  const std::vector<Halves> all = halves_of(tokens);
  for_each_head(inputs, [&](std::int64_t head, DecayedHead& rows) {
    const HeadProducts<const float> d{d_products.of_queries.data_ptr<float>() + head * tokens * tokens,
                                      d_products.of_keys.data_ptr<float>() + head * tokens * tokens, tokens};
    HeadRows sums(tokens, width);
    for (const Halves& halves : all) {
      decay_halves(halves, rows);
      decayed_row_gradients(halves, rows, d, sums);
      decayed_column_gradients(halves, rows, d, sums);
      add_halves(halves, rows, sums);
    }
    for (std::int64_t t = 0; t < tokens; ++t) {
      const float d_same = d.of_queries[t * tokens + t];
      kernel::add_row(rows.k[t], d_same, width, sums.q[t]);
      kernel::add_row(rows.q[t], d_same, width, sums.k[t]);
    }
    sums.q.write(tokens, width, grads.q.data_ptr<float>() + head * elements);
    sums.k.write(tokens, width, grads.k.data_ptr<float>() + head * elements);
    sums.log_decay.write(tokens, width, grads.log_decay.data_ptr<float>() + head * elements);
  });
}

}  // namespace sluice::ops::cpu
