#include "ops/embedding.hpp"

#include "ops/cpu/kernel.hpp"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>

#include <algorithm>

namespace sluice::ops {
namespace {

/// Adds columns [begin, end) of every row but those of `padding`, in the order of the rows.
template <class T>
SLUICE_VECTOR_CLONES void add_columns(const std::int64_t* ids, std::int64_t padding, const T* rows,
                                      std::int64_t count, std::int64_t width, std::int64_t begin,
                                      std::int64_t end, float* grad, std::int64_t grad_stride) {
  for (std::int64_t t = 0; t < count; ++t) {
    if (ids[t] == padding) continue;
    const T* row = rows + t * width;
    float* target = grad + ids[t] * grad_stride;
    for (std::int64_t c = begin; c < end; ++c) target[c] += kernel::load(row[c]);
  }
}

}  // namespace

at::Tensor embedding(const at::Tensor& ids, const Parameter& table) {
  const std::int64_t vocabulary = table.value.size(0);
  const at::Tensor tokens = ids.contiguous();
  const std::int64_t* id = tokens.data_ptr<std::int64_t>();
  for (std::int64_t t = 0; t < tokens.numel(); ++t) {
    if (id[t] < 0 || id[t] >= vocabulary)
      fail(ExitCode::kBadData,
           "token {} of the batch has id {}, but the model's vocabulary ends at {}; was the text made into "
           "tokens with another model's tokenizer?",
           t, id[t], vocabulary - 1);
  }
  return at::index_select(table.value, 0, tokens);
}

void embedding_backward(const at::Tensor& ids, const at::Tensor& d_out, const Parameter& table,
                        std::int64_t padding) {
  if (!table.grad.defined()) return;
  const at::Tensor tokens = ids.contiguous();
  const at::Tensor rows = d_out.contiguous();
  const std::int64_t width = rows.size(1);
  const at::Tensor grad = gradient_to_add_to(table);
  // Threads share the columns, so that each gradient row is summed in token order whatever their number.
  kernel::dispatch(rows, [&]<class T>(T) {
    at::parallel_for(0, width, kernel::grain(rows.size(0)), [&](std::int64_t begin, std::int64_t end) {
      add_columns(tokens.data_ptr<std::int64_t>(), padding, rows.data_ptr<T>(), rows.size(0), width, begin,
                  end, grad.data_ptr<float>(), grad.stride(0));
    });
  });
}

std::vector<std::int64_t> distinct_ids(std::span<const at::Tensor> ids) {
  std::vector<std::int64_t> all;
  for (const at::Tensor& some : ids) {
    const at::Tensor tokens = some.contiguous();
    all.insert(all.end(), tokens.data_ptr<std::int64_t>(), tokens.data_ptr<std::int64_t>() + tokens.numel());
  }
  std::ranges::sort(all);
  all.erase(std::ranges::unique(all).begin(), all.end());
  return all;
}

void embedding_backward(const at::Tensor& ids, const at::Tensor& d_out, const TableRows& table,
                        std::int64_t padding) {
  const at::Tensor tokens = ids.contiguous();
  const at::Tensor places = at::empty_like(tokens);
  std::transform(tokens.data_ptr<std::int64_t>(), tokens.data_ptr<std::int64_t>() + tokens.numel(),
                 places.data_ptr<std::int64_t>(), [&](std::int64_t id) {
                   return id == padding ? kNoPadding
                                        : std::ranges::lower_bound(table.rows, id) - table.rows.begin();
                 });
  embedding_backward(places, d_out, Parameter{{}, table.grad}, kNoPadding);
}

}  // namespace sluice::ops
