#include "ops/attention.hpp"

#include "base/error.hpp"
#include "ops/runtime/node.hpp"
#include "ops/runtime/processor.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

namespace sluice::ops {
namespace {

AttentionRecord compute(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                        const Documents& documents) {
  const AttentionRecord made{at::empty_like(q),
                             at::empty({q.size(0), q.size(2), q.size(1)}, q.options().dtype(at::kFloat))};
  on::attention(q, k, v, scale, documents, made.out, made.log_sums);
  return made;
}

struct Attention : node::Function<Attention> {
  static at::Tensor forward(node::AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, double scale, const Documents& documents,
                            AttentionRecord* record) {
    const bool is_kept = record != nullptr && record->out.defined();
    SLUICE_ASSERT(!is_kept || record->out.sizes() == q.sizes(), "a record of another pass");
    const AttentionRecord made = is_kept ? *record : compute(q, k, v, scale, documents);
    if (record != nullptr) *record = made;
    // The result becomes part of a graph, which the record must not be: it would keep itself.
    at::Tensor out = made.out.detach();
    context->save_for_backward({q, k, v, out, made.log_sums});
    context->saved_data["scale"] = scale;
    node::keep(context, documents);
    return out;
  }

  static node::variable_list backward(node::AutogradContext* context, const node::variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2];
    const double scale = context->saved_data["scale"].toDouble();
    const at::Tensor d_out = grads[0].contiguous();
    at::Tensor d_q = at::empty_like(q);
    at::Tensor d_k = at::empty_like(k);
    at::Tensor d_v = at::empty_like(v);
    on::attention_backward(q, k, v, scale, node::kept_documents(context), saved[3], saved[4], d_out,
                           AttentionGradients{d_q, d_k, d_v});
    return {d_q, d_k, d_v, {}, {}, {}};
  }
};

}  // namespace

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                     const Documents& documents, AttentionRecord* record) {
  SLUICE_ASSERT(q.dim() == 4 && k.sizes() == v.sizes() && q.size(2) % k.size(2) == 0,
                "{} query heads cannot share {} key heads", q.size(2), k.size(2));
  return Attention::apply(q.contiguous(), k.contiguous(), v.contiguous(), scale, documents, record);
}

}  // namespace sluice::ops
