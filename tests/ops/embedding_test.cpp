#include "ops/embedding.hpp"

#include "base/error.hpp"
#include "ops/op_check.hpp"

#include <ATen/ops/index_select.h>
#include <gtest/gtest.h>

namespace sluice::ops {
namespace {

TEST(Embedding, takes_the_rows_of_its_ids) {
  for (const at::ScalarType dtype : kDTypes) {
    const at::Tensor table = numbers({10, 6}, dtype);
    const at::Tensor rows = embedding(at::tensor({3, 0, 3}, at::kLong), {table, {}});
    EXPECT_TRUE(rows.equal(at::stack({table[3], table[0], table[3]})));
  }
}

TEST(Embedding, refuses_an_id_outside_its_table) {
  const Parameter table{numbers({10, 6}), {}};
  EXPECT_THROW((void)embedding(at::tensor({3, 10}, at::kLong), table), Error);
  EXPECT_THROW((void)embedding(at::tensor({-1}, at::kLong), table), Error);
}

TEST(Embedding, takes_from_some_rows_what_it_takes_from_the_table) {
  const at::Tensor table = numbers({10, 6}), ids = at::tensor({7, 2, 7}, at::kLong);
  const std::vector<std::int64_t> rows{2, 7};
  const TableRows some{rows, at::index_select(table, 0, at::tensor(rows))};
  EXPECT_TRUE(embedding(ids, some, 10).equal(embedding(ids, {table, {}})));
  EXPECT_THROW((void)embedding(at::tensor({2, 10}, at::kLong), some, 10), Error);
}

TEST(EmbeddingBackward, adds_the_rows_of_repeated_ids_in_float32) {
  const at::Tensor ids = at::randint(0, 10, {500}, at::kLong);
  for (const at::ScalarType dtype : kDTypes) {
    const Parameter table = parameter(numbers({10, 6}, dtype));
    const at::Tensor d_out = numbers({500, 6}, dtype, 2);
    embedding_backward(ids, d_out, table);
    const at::Tensor expected = at::zeros({10, 6}, at::kDouble).index_add(0, ids, d_out.to(at::kDouble));
    expect_close(table.grad - 0.5, expected, 1e-5);
  }
}

TEST(EmbeddingBackward, leaves_the_row_of_the_padding_alone) {
  const at::Tensor d_out = numbers({4, 6});
  const Parameter table = parameter(numbers({10, 6}));
  const at::Tensor before = table.grad.clone();
  embedding_backward(at::tensor({3, 0, 3, 7}, at::kLong), d_out, table, 3);
  EXPECT_TRUE(table.grad[3].equal(before[3]));
  EXPECT_TRUE(table.grad[0].equal(before[0] + d_out[1]));
  EXPECT_TRUE(table.grad[7].equal(before[7] + d_out[3]));
}

TEST(EmbeddingBackward, into_some_rows_adds_what_the_table_would_get) {
  const std::vector<at::Tensor> ids{at::tensor({7, 0, 3}, at::kLong), at::tensor({7, 9}, at::kLong)};
  const std::vector<std::int64_t> rows = distinct_ids(ids);
  EXPECT_EQ(rows, (std::vector<std::int64_t>{0, 3, 7, 9}));
  const Parameter table{numbers({10, 6}), at::zeros({10, 6})};
  const at::Tensor grad = at::zeros({4, 6});
  for (const at::Tensor& some : ids) {
    const at::Tensor d_out = numbers({some.numel(), 6});
    embedding_backward(some.flatten(), d_out, table, 3);
    embedding_backward(some.flatten(), d_out, TableRows{rows, grad}, 3);
  }
  EXPECT_TRUE(grad.equal(at::index_select(table.grad, 0, at::tensor(rows))));
  EXPECT_TRUE(grad[1].eq(0).all().item<bool>());
}

TEST(EmbeddingBackward, gives_the_same_sums_for_any_number_of_threads) {
  const at::Tensor ids = at::randint(0, 3, {2000}, at::kLong);
  const at::Tensor d_out = numbers({2000, 64});
  Tensors grads;
  for (const int count : {1, 3}) {
    const Threads threads(count);
    const Parameter table = parameter(numbers({3, 64}));
    embedding_backward(ids, d_out, table);
    grads.push_back(table.grad);
  }
  EXPECT_TRUE(grads[0].equal(grads[1]));
}

TEST(EmbeddingBackward, does_nothing_without_a_gradient) {
  embedding_backward(at::zeros({2}, at::kLong), at::ones({2, 6}), {numbers({10, 6}), {}});
}

}  // namespace
}  // namespace sluice::ops
