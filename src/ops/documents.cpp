#include "ops/documents.hpp"

#include "ops/runtime/processor.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/maximum.h>

namespace sluice::ops {

Documents documents_from(const at::Tensor& begins) {
  const at::Tensor first = at::empty(begins.sizes(), begins.options().dtype(at::kLong));
  on::find_document_begins(begins.contiguous(), first);
  Documents documents{first};
  if (!begins.is_cpu()) device::find_document_bounds(begins, documents);
  return documents;
}

Documents within_window(const Documents& documents, const at::Tensor& sequences, std::int64_t window) {
  const std::int64_t length = sequences.size(1);
  if (window == 0 || window >= length) return documents;
  const at::Tensor begins =
      (at::arange(length, sequences.options().dtype(at::kLong)) - (window - 1)).clamp_min_(0);
  const at::Tensor all = begins.expand({sequences.size(0), length});
  return {documents.packed() ? at::maximum(all, documents.first) : all.contiguous()};
}

}  // namespace sluice::ops
