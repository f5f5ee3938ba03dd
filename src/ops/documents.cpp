#include "ops/documents.hpp"

#include <ATen/ops/empty.h>

namespace sluice::ops {

Documents documents_from(const at::Tensor& begins) {
  const at::Tensor marks = begins.contiguous();
  const at::Tensor first = at::empty(marks.sizes(), marks.options().dtype(at::kLong));
  const auto* mark = marks.data_ptr<std::uint8_t>();
  auto* out = first.data_ptr<std::int64_t>();
  for (std::int64_t sequence = 0; sequence < marks.size(0); ++sequence) {
    std::int64_t document = 0;
    for (std::int64_t t = 0; t < marks.size(1); ++t) {
      if (*mark++ != 0) document = t;
      *out++ = document;
    }
  }
  return {first};
}

}  // namespace sluice::ops
