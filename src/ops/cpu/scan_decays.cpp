#include "ops/cpu/scan_decays.hpp"

#include <algorithm>

namespace sluice::ops::cpu {
namespace {

/// Computes the decays of one head; `document` is null without packed documents.
SLUICE_VECTOR_CLONES void decays_of_head(const double* sums, const std::int64_t* document,
                                         std::int64_t tokens, float* decays) {
  for (std::int64_t i = 0; i < tokens; ++i) {
    float* row = decays + i * tokens;
    const std::int64_t first = document == nullptr ? 0 : std::max<std::int64_t>(0, document[i]);
    std::fill(row, row + first, 0.0F);
    for (std::int64_t j = first; j <= i; ++j) row[j] = state_decay(static_cast<float>(sums[i] - sums[j]));
    std::fill(row + i + 1, row + tokens, 0.0F);
  }
}

}  // namespace

void scan_decays(const at::Tensor& sums, const at::Tensor& document, const at::Tensor& decays) {
  const std::int64_t heads = sums.size(1), tokens = sums.size(2);
  const std::int64_t* first = document.defined() ? document.data_ptr<std::int64_t>() : nullptr;
  at::parallel_for(0, sums.size(0) * heads, kernel::grain(tokens * tokens),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t head = begin; head < end; ++head)
                       decays_of_head(sums.data_ptr<double>() + head * tokens,
                                      first == nullptr ? nullptr : first + head / heads * tokens, tokens,
                                      decays.data_ptr<float>() + head * tokens * tokens);
                   });
}

}  // namespace sluice::ops::cpu
