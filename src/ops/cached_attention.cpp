#include "ops/cached_attention.hpp"

#include "base/error.hpp"
#include "ops/attention.hpp"
#include "ops/runtime/processor.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

namespace sluice::ops {
namespace {

/// Attention by tiles knows whole sequences alone: it lays out all keys, and has rows for all queries. Its matmuls are some twenty
/// times as fast as reading keys query by query.
bool pays_for_tiles(std::int64_t queries, std::int64_t keys) { return 16 * queries >= keys; }

}  // namespace

at::Tensor cached_attention(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values,
                            double scale) {
  const at::NoGradGuard no_grad;
  SLUICE_ASSERT(q.dim() == 3 && keys.sizes() == values.sizes() && q.size(0) <= keys.size(0) &&
                    q.size(1) % keys.size(1) == 0,
                "{} queries of {} heads over {} keys of {}", q.size(0), q.size(1), keys.size(0),
                keys.size(1));
  const std::int64_t before = keys.size(0) - q.size(0);
  if (q.size(0) > 1 && pays_for_tiles(q.size(0), keys.size(0))) {
    const auto batch = [](const at::Tensor& x) { return x.unsqueeze(0).contiguous(); };
    const at::Tensor all =
        batch(before == 0 ? q : at::cat({at::zeros({before, q.size(1), q.size(2)}, q.options()), q}));
    const at::Tensor out = at::empty_like(all);
    const at::Tensor log_sums = at::empty({1, q.size(1), keys.size(0)}, q.options().dtype(at::kFloat));
    on::attention(all, batch(keys), batch(values), scale, Documents(), out, log_sums, before);
    return out[0].narrow(0, before, q.size(0));
  }
  const at::Tensor queries = q.contiguous();
  at::Tensor out = at::empty_like(queries);
  on::cached_attention(queries, keys, values, scale, out);
  return out;
}

}  // namespace sluice::ops
