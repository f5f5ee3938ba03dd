#include "ops/cpu/token_ids.hpp"

#include "ops/embedding.hpp"

#include <algorithm>

namespace sluice::ops::cpu {

std::optional<PlacedId> first_outside(const at::Tensor& ids, std::int64_t end,
                                      std::optional<std::int64_t> exempt) {
  const std::int64_t* const id = ids.data_ptr<std::int64_t>();
  for (std::int64_t t = 0; t < ids.numel(); ++t)
    if ((id[t] < 0 || id[t] >= end) && id[t] != exempt) return PlacedId{t, id[t]};
  return std::nullopt;
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

void find_places(const at::Tensor& ids, std::span<const std::int64_t> rows, std::int64_t padding,
                 const at::Tensor& places) {
  std::transform(ids.data_ptr<std::int64_t>(), ids.data_ptr<std::int64_t>() + ids.numel(),
                 places.data_ptr<std::int64_t>(), [&](std::int64_t id) {
                   return id == padding ? kNoPadding : std::ranges::lower_bound(rows, id) - rows.begin();
                 });
}

void find_document_begins(const at::Tensor& begins, const at::Tensor& first) {
  const auto* mark = begins.data_ptr<std::uint8_t>();
  auto* out = first.data_ptr<std::int64_t>();
  for (std::int64_t sequence = 0; sequence < begins.size(0); ++sequence) {
    std::int64_t document = 0;
    for (std::int64_t t = 0; t < begins.size(1); ++t) {
      if (*mark++ != 0) document = t;
      *out++ = document;
    }
  }
}

}  // namespace sluice::ops::cpu
