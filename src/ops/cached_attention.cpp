#include "ops/cached_attention.hpp"

#include "base/error.hpp"
#include "ops/attention.hpp"
#include "ops/cpu/attention/cached_attention.hpp"

#include <ATen/ops/empty_like.h>

namespace sluice::ops {

at::Tensor cached_attention(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values,
                            double scale) {
  const at::NoGradGuard no_grad;
  SLUICE_ASSERT(q.dim() == 3 && keys.sizes() == values.sizes() && q.size(0) <= keys.size(0) &&
                    q.size(1) % keys.size(1) == 0,
                "{} queries of {} heads over {} keys of {}", q.size(0), q.size(1), keys.size(0),
                keys.size(1));
  if (q.size(0) == keys.size(0) && q.size(0) > 1)  // a sequence's beginning: nothing is there before it
    return attention(q.unsqueeze(0), keys.unsqueeze(0), values.unsqueeze(0), scale).squeeze(0);
  const at::Tensor queries = q.contiguous();
  at::Tensor out = at::empty_like(queries);
  cpu::cached_attention(queries, keys, values, scale, out);
  return out;
}

}  // namespace sluice::ops
