#include "ops/attention.hpp"

#include "base/error.hpp"
#include "base/trace/recorder.hpp"
#include "ops/runtime/node.hpp"
#include "ops/runtime/processor.hpp"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>

namespace sluice::ops {
namespace {

AttentionRecord compute(const AttentionInputs& inputs) {
  const at::Tensor& q = inputs.q;
  const AttentionRecord made{at::empty_like(q),
                             at::empty({q.size(0), q.size(2), q.size(1)}, q.options().dtype(at::kFloat))};
  on::attention(inputs, made);
  return made;
}

struct Attention : node::Function<Attention> {
  static at::Tensor forward(node::AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const AttentionForm& form, const Documents& documents,
                            AttentionRecord* record) {
    const bool is_kept = record != nullptr && record->out.defined();
    SLUICE_ASSERT(!is_kept || record->out.sizes() == q.sizes(),
                  "the attention record belongs to another pass");
    const AttentionRecord made =
        is_kept ? *record : compute({q, k, v, form.scale, documents, sink_logits(form.sinks)});
    if (record != nullptr) *record = made;
    // The result becomes part of a graph. The record must not be part of it, or the graph would keep itself
    // alive.
    at::Tensor out = made.out.detach();
    context->save_for_backward({q, k, v, out, made.logsumexp});
    context->saved_data["scale"] = form.scale;
    node::keep(context, "sinks", form.sinks);
    node::keep(context, documents);
    return out;
  }

  static node::variable_list backward(node::AutogradContext* context, const node::variable_list& grads) {
    const trace::Span span(trace::Kind::kOperation, "attention backward");
    const auto saved = context->get_saved_variables();
    const Parameter sinks = node::kept(context, "sinks");
    const AttentionInputs inputs{saved[0],
                                 saved[1],
                                 saved[2],
                                 context->saved_data["scale"].toDouble(),
                                 node::kept_documents(context),
                                 sink_logits(sinks)};
    const AttentionGradients d{at::empty_like(inputs.q), at::empty_like(inputs.k), at::empty_like(inputs.v),
                               sinks.grad.defined() ? gradient_to_add_to(sinks) : at::Tensor()};
    on::attention_backward(inputs, AttentionRecord{saved[3], saved[4]}, grads[0].contiguous(), d);
    return {d.q, d.k, d.v, {}, {}, {}};
  }
};

}  // namespace

at::Tensor padded(const at::Tensor& x, std::int64_t width) {
  return x.size(-1) == width ? x : at::constant_pad_nd(x, {0, width - x.size(-1)});
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionForm& form,
                     const Documents& documents, AttentionRecord* record) {
  const trace::Span span(trace::Kind::kOperation, "attention");
  SLUICE_ASSERT(q.dim() == 4 && k.sizes().slice(0, 3) == v.sizes().slice(0, 3) && q.size(2) % k.size(2) == 0,
                "{} query heads cannot share {} key heads", q.size(2), k.size(2));
  SLUICE_ASSERT(q.size(1) > 0, "attention of sequences without positions");
  SLUICE_ASSERT(!form.sinks.value.defined() || form.sinks.value.numel() == q.size(2),
                "found {} sinks, expected one for each of {} heads", form.sinks.value.numel(), q.size(2));
  const std::int64_t width = std::max(k.size(3), v.size(3));
  const auto heads = [&](const at::Tensor& x) { return padded(x, width).contiguous(); };
  const at::Tensor out =
      Attention::apply(heads(q), heads(k), heads(v), form, within_window(documents, q, form.window), record);
  return v.size(3) == width ? out : out.narrow(3, 0, v.size(3));
}

}  // namespace sluice::ops
