#include "ops/attention.hpp"

#include "ops/cached_attention.hpp"
#include "ops/op_check.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>

namespace sluice::ops {
namespace {

constexpr double kScale = 0.3;

/// transformers' eager attention, with k and v repeated for each group of query heads.
at::Tensor formula(const Tensors& in, const Tensors&) {
  const std::int64_t length = in[0].size(1);
  const std::int64_t group = in[0].size(2) / in[1].size(2);
  const at::Tensor q = in[0].transpose(1, 2);
  const at::Tensor k = in[1].transpose(1, 2).repeat_interleave(group, 1);
  const at::Tensor v = in[2].transpose(1, 2).repeat_interleave(group, 1);
  const at::Tensor future = at::ones({length, length}, at::kBool).triu(1);
  const at::Tensor scores = (at::matmul(q, k.transpose(2, 3)) * kScale).masked_fill(future, -1e30);
  return at::matmul(at::softmax(scores, -1), v).transpose(1, 2);
}

at::Tensor operation(const Tensors& in, const Parameters&) {
  return attention(in[0], in[1], in[2], {kScale});
}

Tensors heads(std::int64_t b, std::int64_t length, std::int64_t nq, std::int64_t nkv, at::ScalarType dtype,
              std::int64_t width = 16, std::int64_t value_width = 0) {
  return {numbers({b, length, nq, width}, dtype), numbers({b, length, nkv, width}, dtype, 2),
          numbers({b, length, nkv, value_width == 0 ? width : value_width}, dtype, 3)};
}

TEST(Attention, matches_its_formula_with_grouped_queries) {
  for (const at::ScalarType dtype : kDTypes) {
    expect_matches(operation, formula, heads(2, 33, 6, 2, dtype), {});
    expect_matches(operation, formula, heads(1, 8, 4, 4, dtype), {});
    expect_matches(operation, formula, heads(3, 5, 4, 1, dtype), {});
    expect_matches(operation, formula, heads(1, 300, 4, 2, dtype),
                   {});  // several panels of keys, the last block short
    expect_matches(operation, formula, heads(1, 700, 4, 1, dtype),
                   {});  // several panels of the backward pass
  }
}

TEST(Attention, takes_heads_of_any_width) {
  for (const at::ScalarType dtype : kDTypes)
    for (const std::int64_t width : {1, 40, 64, 80, 96, 128, 192, 320, 512})
      expect_matches(operation, formula, heads(2, 70, 4, 2, dtype, width), {});
}

// Queries, keys, and values that are narrower or wider than these.
constexpr std::pair<std::int64_t, std::int64_t> kTwoWidths[] = {{24, 16}, {192, 128}, {12, 40}};

TEST(Attention, takes_values_of_another_width_than_keys) {
  for (const at::ScalarType dtype : kDTypes)
    for (const auto& [width, value_width] : kTwoWidths)
      expect_matches(operation, formula, heads(2, 70, 4, 2, dtype, width, value_width), {});
}

// Keys past those that pass at a time, whose scores grow on the way: every sum is brought down again and
// again.
TEST(Attention, matches_its_formula_when_later_keys_outweigh_earlier_ones) {
  for (const at::ScalarType dtype : kDTypes) {
    Tensors in = heads(1, 2300, 1, 1, dtype, 32);
    in[0] = in[0].abs();
    in[1] = (in[1].abs() * at::arange(2300).view({1, -1, 1, 1}) / 4600).to(dtype);
    expect_matches(operation, formula, in, {});
  }
}

TEST(Attention, of_one_position_is_its_value) {
  const Tensors in = heads(2, 1, 4, 2, at::kFloat);
  const at::Tensor expected = in[2].repeat_interleave(2, 2);
  EXPECT_TRUE(attention(in[0], in[1], in[2], {kScale}).equal(expected));
}

TEST(Attention, of_packed_documents_is_that_of_each_alone) {
  for (const at::ScalarType dtype : kDTypes)
    for (const std::int64_t length : {10, 300, 900}) {
      const Documents documents = packed_documents(length);
      expect_matches([&](const Tensors& in,
                         const Parameters&) { return attention(in[0], in[1], in[2], {kScale}, documents); },
                     [&](const Tensors& in, const Tensors& w) {
                       return by_document(documents, in,
                                          [&](const Tensors& part) { return formula(part, w); });
                     },
                     heads(2, length, 4, 2, dtype), {});
    }
}

/// transformers' attention of gpt-oss: of the last `window` keys, and a column more whose weight is dropped.
at::Tensor windowed_formula(const Tensors& in, const at::Tensor& sink_logits, std::int64_t window) {
  const std::int64_t length = in[0].size(1), group = in[0].size(2) / in[1].size(2);
  const at::Tensor q = in[0].transpose(1, 2);
  const at::Tensor k = in[1].transpose(1, 2).repeat_interleave(group, 1);
  const at::Tensor v = in[2].transpose(1, 2).repeat_interleave(group, 1);
  const at::Tensor all = at::ones({length, length}, at::kBool);
  const at::Tensor hidden = all.triu(1).logical_or(all.tril(-window));
  const at::Tensor scores = (at::matmul(q, k.transpose(2, 3)) * kScale).masked_fill(hidden, -1e30);
  const at::Tensor sinks = sink_logits.view({1, -1, 1, 1}).expand({q.size(0), -1, length, 1});
  const at::Tensor shares = at::softmax(at::cat({scores, sinks}, -1), -1).narrow(-1, 0, length);
  return at::matmul(shares, v).transpose(1, 2);
}

/// Sinks of so many heads.
Parameters sinks_of(std::int64_t heads, at::ScalarType dtype) {
  return {parameter(2 * numbers({heads}, dtype, 4))};
}

at::Tensor with_sinks(const Tensors& in, const Parameters& sinks, std::int64_t window,
                      const Documents& documents = {}) {
  return attention(in[0], in[1], in[2], {kScale, window, sinks[0]}, documents);
}

TEST(Attention, of_a_window_with_sinks_matches_its_formula) {
  struct Case {
    std::int64_t b, length, nq, nkv, window;
  };
  for (const at::ScalarType dtype : kDTypes)
    for (const Case& c : {Case{2, 33, 6, 2, 5},
                          {1, 8, 4, 4, 1},
                          {1, 20, 4, 2, 100},
                          {1, 700, 8, 1, 128},
                          {2, 300, 4, 2, 33},
                          {1, 900, 2, 2, 400},
                          {1, 2300, 1, 1, 700}})
      expect_matches(
          [&](const Tensors& in, const Parameters& sinks) { return with_sinks(in, sinks, c.window); },
          [&](const Tensors& in, const Tensors& sinks) { return windowed_formula(in, sinks[0], c.window); },
          heads(c.b, c.length, c.nq, c.nkv, dtype), sinks_of(c.nq, dtype));
}

TEST(Attention, of_a_window_alone_and_of_sinks_alone_matches_its_formula) {
  for (const at::ScalarType dtype : kDTypes) {
    expect_matches(
        [&](const Tensors& in, const Parameters&) {
          return attention(in[0], in[1], in[2], {kScale, 7});
        },
        [&](const Tensors& in, const Tensors&) {
          return windowed_formula(in, at::full({in[0].size(2)}, -1e30, in[0].options()), 7);
        },
        heads(2, 300, 4, 2, dtype), {});
    expect_matches(
        [&](const Tensors& in, const Parameters& sinks) { return with_sinks(in, sinks, 0); },
        [&](const Tensors& in, const Tensors& sinks) { return windowed_formula(in, sinks[0], 1000); },
        heads(2, 300, 4, 2, dtype), sinks_of(4, dtype));
  }
}

TEST(Attention, of_a_window_with_sinks_over_packed_documents_is_that_of_each_alone) {
  for (const at::ScalarType dtype : kDTypes)
    for (const std::int64_t length : {10, 300, 900}) {
      const Documents documents = packed_documents(length);
      expect_matches(
          [&](const Tensors& in, const Parameters& sinks) { return with_sinks(in, sinks, 40, documents); },
          [&](const Tensors& in, const Tensors& sinks) {
            return by_document(documents, in,
                               [&](const Tensors& part) { return windowed_formula(part, sinks[0], 40); });
          },
          heads(2, length, 4, 2, dtype), sinks_of(4, dtype));
    }
}

TEST(Attention, of_values_of_another_width_in_a_window_over_packed_documents_is_that_of_each_alone) {
  const Documents documents = packed_documents(300);
  for (const at::ScalarType dtype : kDTypes)
    expect_matches(
        [&](const Tensors& in, const Parameters& sinks) { return with_sinks(in, sinks, 40, documents); },
        [&](const Tensors& in, const Tensors& sinks) {
          return by_document(documents, in,
                             [&](const Tensors& part) { return windowed_formula(part, sinks[0], 40); });
        },
        heads(2, 300, 4, 2, dtype, 24, 16), sinks_of(4, dtype));
}

TEST(Attention, does_not_look_ahead) {
  for (const at::ScalarType dtype : kDTypes) {
    const Tensors in = heads(1, 20, 4, 2, dtype);
    const at::Tensor before = attention(in[0], in[1], in[2], {kScale});
    in[1].narrow(1, 10, 10).fill_(5.0F);
    in[2].narrow(1, 10, 10).fill_(5.0F);
    const at::Tensor after = attention(in[0], in[1], in[2], {kScale});
    EXPECT_TRUE(before.narrow(1, 0, 10).equal(after.narrow(1, 0, 10)));
    EXPECT_FALSE(before.equal(after));
  }
}

// Threads that have no head of their own help others with theirs.
TEST(Attention, is_the_same_for_any_number_of_threads) {
  for (const at::ScalarType dtype : kDTypes)
    for (const auto& [key_heads, documents] :
         {std::pair(1, Documents()), std::pair(4, Documents()), std::pair(1, packed_documents(900)),
          std::pair(4, packed_documents(900)), std::pair(1, within_window({}, at::empty({1, 900}), 100))}) {
      const std::int64_t sequences = documents.packed() ? documents.first.size(0) : 1;
      const Tensors in = heads(sequences, 900, 4, key_heads, dtype);
      std::vector<Tensors> results;
      for (const int count : {1, 3, 9}) {
        const Threads threads(count);
        const Tensors leaves{in[0].clone().requires_grad_(), in[1].clone().requires_grad_(),
                             in[2].clone().requires_grad_()};
        const at::Tensor out = attention(leaves[0], leaves[1], leaves[2], {kScale}, documents);
        out.pow(2).sum().backward();
        results.push_back({out, leaves[0].grad(), leaves[1].grad(), leaves[2].grad()});
        for (std::size_t i = 0; i < results[0].size(); ++i) {
          SCOPED_TRACE(fmt::format("{} heads of keys, {} threads, {}", key_heads, count, i));
          EXPECT_TRUE(results.back()[i].equal(results[0][i]));
        }
      }
    }
}

TEST(Attention, of_a_later_pass_takes_what_the_first_one_made) {
  for (const at::ScalarType dtype : kDTypes) {
    const Tensors in = heads(2, 300, 4, 2, dtype);
    AttentionRecord record;
    const auto pass = [&] {
      const Tensors leaves{in[0].clone().requires_grad_(), in[1].clone().requires_grad_(),
                           in[2].clone().requires_grad_()};
      const at::Tensor out = attention(leaves[0], leaves[1], leaves[2], {kScale}, {}, &record);
      out.pow(2).sum().backward();
      return Tensors{out.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
    };
    const Tensors first = pass();
    EXPECT_FALSE(record.out.requires_grad());
    const Tensors later = pass();
    EXPECT_TRUE(later[0].is_alias_of(first[0])) << "computed again";
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(later[i].equal(first[i])) << i;
  }
}

TEST(Attention, stays_finite_with_scores_beyond_the_range_of_exp) {
  for (const at::ScalarType dtype : kDTypes) {
    const Tensors in = heads(1, 9, 2, 1, dtype);
    const at::Tensor y = attention(in[0] * 100, in[1] * 100, in[2], {1.0});
    EXPECT_TRUE(y.isfinite().all().item<bool>());
  }
}

// A number that is none stays so for the queries that meet it, and does not reach others.
TEST(Attention, of_keys_that_are_no_numbers_is_none_from_their_position_on) {
  for (const at::ScalarType dtype : kDTypes) {
    const Tensors in = heads(1, 300, 2, 1, dtype);
    in[1].select(1, 200).fill_(std::numeric_limits<float>::quiet_NaN());
    const at::Tensor y = attention(in[0], in[1], in[2], {kScale});
    EXPECT_TRUE(y.narrow(1, 0, 200).isfinite().all().item<bool>());
    EXPECT_TRUE(y.narrow(1, 200, 100).isnan().all().item<bool>());
  }
}

void expect_newest_as_all(at::ScalarType dtype, std::int64_t value_width) {
  constexpr std::int64_t kTokens = 700;
  const Tensors in = heads(1, kTokens, 4, 2, dtype, 32, value_width);
  const at::Tensor &q = in[0], &k = in[1], &v = in[2];
  const at::Tensor whole = attention(q, k, v, {0.2});
  const AttentionForm windowed{0.2, 90, {2 * numbers({4}, dtype, 4), {}}};
  const at::Tensor whole_windowed = attention(q, k, v, windowed);
  for (const std::int64_t newest : {1, 5, 47, 130, 699, 700}) {
    const auto last = [&](const at::Tensor& all) { return all[0].narrow(0, kTokens - newest, newest); };
    const double bound = dtype == at::kFloat ? 1e-5 : 2e-2;
    expect_close(cached_attention(last(q), k[0], v[0], {0.2}), last(whole), bound);
    expect_close(cached_attention(last(q), k[0], v[0], windowed), last(whole_windowed), bound);
  }
}

TEST(Attention, of_the_newest_tokens_is_that_of_all) {
  for (const at::ScalarType dtype : kDTypes)
    for (const std::int64_t value_width : {32, 20, 48}) expect_newest_as_all(dtype, value_width);
}

}  // namespace
}  // namespace sluice::ops
