#include "ops/documents.hpp"

#include "ops/runtime/processor.hpp"

#include <ATen/ops/empty.h>

namespace sluice::ops {

Documents documents_from(const at::Tensor& begins) {
  const at::Tensor first = at::empty(begins.sizes(), begins.options().dtype(at::kLong));
  on::find_document_begins(begins.contiguous(), first);
  Documents documents{first};
  if (!begins.is_cpu()) device::find_document_bounds(begins, documents);
  return documents;
}

}  // namespace sluice::ops
