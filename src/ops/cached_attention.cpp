#include "ops/cached_attention.hpp"

#include "base/error.hpp"
#include "base/trace/recorder.hpp"
#include "ops/attention.hpp"
#include "ops/runtime/processor.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

namespace sluice::ops {
namespace {

/// Whether attention by blocks pays off: it packs all keys, and has rows for all queries, but its products are
/// many times as fast as reading keys query by query (some twenty times on matrix tiles, where 16 was found).
bool pays_for_blocks(std::int64_t queries, std::int64_t keys) { return 16 * queries >= keys; }

/// Rows of x from row `begin` on.
at::Tensor last(const at::Tensor& x, std::int64_t begin) { return x.narrow(0, begin, x.size(0) - begin); }

}  // namespace

at::Tensor cached_attention(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values,
                            const AttentionForm& form) {
  const at::NoGradGuard no_grad;
  SLUICE_ASSERT(q.dim() == 3 && keys.sizes().slice(0, 2) == values.sizes().slice(0, 2) &&
                    q.size(0) <= keys.size(0) && q.size(1) % keys.size(1) == 0,
                "{} queries of {} heads do not fit {} keys of {} heads", q.size(0), q.size(1), keys.size(0),
                keys.size(1));
  const std::int64_t unseen = form.window == 0 ? 0 : keys.size(0) - q.size(0) - (form.window - 1);
  if (unseen > 0) return cached_attention(q, last(keys, unseen), last(values, unseen), form);
  const trace::Span span(trace::Kind::kOperation, "attention");
  const std::int64_t before = keys.size(0) - q.size(0);
  const at::Tensor sinks = sink_logits(form.sinks);
  if (q.size(0) > 1 && pays_for_blocks(q.size(0), keys.size(0))) {
    const std::int64_t width = std::max(keys.size(2), values.size(2));
    const auto batch = [&](const at::Tensor& x) { return padded(x, width).unsqueeze(0).contiguous(); };
    const at::Tensor all =
        batch(before == 0 ? q : at::cat({at::zeros({before, q.size(1), q.size(2)}, q.options()), q}));
    const AttentionRecord made{at::empty_like(all),
                               at::empty({1, q.size(1), keys.size(0)}, q.options().dtype(at::kFloat))};
    on::attention(AttentionInputs{all, batch(keys), batch(values), form.scale,
                                  within_window({}, all, form.window), sinks},
                  made, before);
    return made.out[0].narrow(0, before, q.size(0)).narrow(2, 0, values.size(2));
  }
  const at::Tensor queries = q.contiguous();
  at::Tensor out = at::empty({q.size(0), q.size(1), values.size(2)}, q.options());
  on::cached_attention(queries, keys, values, form.scale, form.window, sinks, out);
  return out;
}

}  // namespace sluice::ops
