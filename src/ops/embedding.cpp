#include "ops/embedding.hpp"

#include "base/error.hpp"
#include "ops/runtime/processor.hpp"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>

namespace sluice::ops {

namespace {

void require_inside(const at::Tensor& tokens, std::int64_t vocabulary) {
  if (const auto bad = on::first_outside(tokens, vocabulary))
    fail(ExitCode::kBadData,
         "token {} of the batch has id {}, expected at most {}, the end of the model's vocabulary; "
         "was the text made into tokens with another model's tokenizer?",
         bad->place, bad->id, vocabulary - 1);
}

}  // namespace

at::Tensor embedding(const at::Tensor& ids, const Parameter& table) {
  const at::Tensor tokens = ids.contiguous();
  require_inside(tokens, table.value.size(0));
  return at::index_select(table.value, 0, tokens);
}

at::Tensor embedding(const at::Tensor& ids, const TableRows& table, std::int64_t vocabulary) {
  const at::Tensor tokens = ids.contiguous();
  require_inside(tokens, vocabulary);
  const at::Tensor places = at::empty_like(tokens);
  on::find_places(tokens, table.rows, kNoPadding, places);
  return at::index_select(table.values, 0, places);
}

void embedding_backward(const at::Tensor& ids, const at::Tensor& d_out, const Parameter& table,
                        std::int64_t padding) {
  if (!table.grad.defined()) return;
  on::add_token_rows(d_out.contiguous(), ids.contiguous(), padding, gradient_to_add_to(table));
}

std::vector<std::int64_t> distinct_ids(std::span<const at::Tensor> ids) { return on::distinct_ids(ids); }

void embedding_backward(const at::Tensor& ids, const at::Tensor& d_out, const TableRows& table,
                        std::int64_t padding) {
  const at::Tensor tokens = ids.contiguous();
  const at::Tensor places = at::empty_like(tokens);
  on::find_places(tokens, table.rows, padding, places);
  embedding_backward(places, d_out, Parameter{{}, table.values}, kNoPadding);
}

}  // namespace sluice::ops
