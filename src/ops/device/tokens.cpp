// Token ids, which are few and are examined in main memory, and rows of tokens.
#include "base/error.hpp"
#include "ops/cpu/token_ids.hpp"
#include "ops/cpu/token_rows.hpp"
#include "ops/device/own_kernels.hpp"
#include "ops/device/processor.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

namespace sluice::ops::device {
namespace {

/// Returns these numbers as a tensor on the device of `x`.
at::Tensor indices_for(const at::Tensor& x, const std::vector<std::int32_t>& tokens) {
  return at::from_blob(const_cast<std::int32_t*>(tokens.data()), {std::ssize(tokens)}, at::kInt)
      .to(at::TensorOptions(x.device()).dtype(at::kLong));
}

}  // namespace

std::optional<PlacedId> first_outside(const at::Tensor& ids, std::int64_t end,
                                      std::optional<std::int64_t> exempt) {
  return cpu::first_outside(ids.cpu(), end, exempt);
}

std::vector<std::int64_t> distinct_ids(std::span<const at::Tensor> ids) {
  std::vector<at::Tensor> here;
  for (const at::Tensor& some : ids) here.push_back(some.cpu());
  return cpu::distinct_ids(here);
}

void find_places(const at::Tensor& ids, std::span<const std::int64_t> rows, std::int64_t padding,
                 const at::Tensor& places) {
  const at::Tensor here = at::empty(places.sizes(), at::kLong);
  cpu::find_places(ids.cpu(), rows, padding, here);
  places.copy_(here);
}

void find_document_begins(const at::Tensor& begins, const at::Tensor& first) {
  const at::Tensor here = at::empty(first.sizes(), at::kLong);
  cpu::find_document_begins(begins.cpu(), here);
  first.copy_(here);
}

void find_document_bounds(const at::Tensor& begins, Documents& documents) {
  const at::Tensor marks = begins.cpu().ne(0);
  marks.select(1, 0).fill_(true);
  const at::Tensor all = at::full({1}, marks.numel(), at::kLong);
  const at::Tensor bounds = at::cat({marks.flatten().nonzero().squeeze(1), all});
  documents.longest = bounds.diff().max().item<std::int64_t>();
  documents.bounds = bounds.to(begins.options().dtype(at::kInt));
}

at::Tensor take_rows(const at::Tensor& x, const std::vector<std::int32_t>& tokens) {
  return x.index_select(0, indices_for(x, tokens));
}

void round_rows(const at::Tensor& sums, const at::Tensor& out) { out.copy_(sums); }

at::Tensor sum_of_parts(const at::Tensor& rows, const std::vector<std::int32_t>& tokens,
                        std::int64_t token_count) {
  SLUICE_ASSERT(tokens.empty() || std::ssize(tokens) == rows.size(0), "{} rows of {} tokens", rows.size(0),
                tokens.size());
  at::Tensor sums = at::zeros({token_count, rows.size(1)}, rows.options().dtype(at::kFloat));
  if (!tokens.empty())
    add_columns(rows, indices_for(rows, tokens), /*padding=*/-1, sums);
  else
    for (std::int64_t first = 0; first < rows.size(0); first += token_count)
      sums.add_(rows.narrow(0, first, token_count));
  return sums.to(rows.scalar_type());
}

TokenLists list_tokens(const at::Tensor& chosen, std::span<const std::uint32_t> list_of_expert,
                       std::int64_t lists) {
  return cpu::list_tokens(chosen.cpu(), list_of_expert, lists);
}

void add_token_rows(const at::Tensor& rows, const at::Tensor& ids, std::int64_t padding,
                    const at::Tensor& table) {
  add_columns(rows, ids, padding, table);
}

}  // namespace sluice::ops::device
