#include "ops/device/cuda_library.hpp"

#include "ops/device/own_kernels.hpp"
#include "ops/runtime/torch_version.hpp"

#if SLUICE_TORCH_CUDA_OPERATIONS
#include <ATen/Context.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/_grouped_mm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#endif

#include <cstdint>
#include <optional>
#include <tuple>

namespace sluice::ops::device::cuda_library {

#if SLUICE_TORCH_CUDA_OPERATIONS
namespace {

bool is_of_bfloat16(const at::Tensor& x) { return x.is_cuda() && x.scalar_type() == at::kBFloat16; }

/// Makes LibTorch's kernels sum in a fixed order while the object lives.
class InOrder {
 public:
  InOrder() {
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
    at::globalContext().setDeterministicFillUninitializedMemory(false);
  }
  ~InOrder() {
    at::globalContext().setDeterministicFillUninitializedMemory(fills_);
    at::globalContext().setDeterministicAlgorithms(is_on_, warns_);
  }
  InOrder(const InOrder&) = delete;
  InOrder& operator=(const InOrder&) = delete;

 private:
  bool is_on_ = at::globalContext().deterministicAlgorithms();
  bool warns_ = at::globalContext().deterministicAlgorithmsWarnOnly();
  bool fills_ = at::globalContext().deterministicFillUninitializedMemory();
};

bool takes(const at::Tensor& q, const Documents& documents) {
  return is_of_bfloat16(q) && q.size(3) % 8 == 0 && q.size(3) <= 256 && q.numel() > 0 &&
         (!documents.packed() || documents.bounds.defined());
}

/// Form in which the kernels see sequences: unchanged, or packed documents in one row [tokens, heads, d].
struct Layout {
  at::Tensor bounds;  ///< Bounds of the packed documents; undefined if sequences are unchanged.
  std::int64_t longest;

  Layout(const at::Tensor& q, const Documents& documents)
      : bounds(documents.packed() ? documents.bounds : at::Tensor()),
        longest(documents.packed() ? documents.longest : q.size(1)) {}

  [[nodiscard]] std::optional<at::Tensor> bounds_if_packed() const {
    return bounds.defined() ? std::optional(bounds) : std::nullopt;
  }
  [[nodiscard]] at::Tensor rows(const at::Tensor& x) const { return bounds.defined() ? x.flatten(0, 1) : x; }
  /// Returns the sums [b, heads, L] in the kernels' layout [heads, tokens], or back.
  [[nodiscard]] at::Tensor theirs(const at::Tensor& sums) const {
    return bounds.defined() ? sums.transpose(0, 1).flatten(1, 2).contiguous() : sums;
  }
  [[nodiscard]] at::Tensor ours(const at::Tensor& sums, const at::Tensor& like) const {
    return bounds.defined() ? sums.view({like.size(1), like.size(0), like.size(2)}).transpose(0, 1) : sums;
  }
};

/// Whether x starts, and has strides, at multiples of the 16 bytes that the kernel loads at a time.
bool is_aligned(const at::Tensor& x) {
  constexpr std::int64_t kBytes = 16;
  if (reinterpret_cast<std::uintptr_t>(x.data_ptr()) % kBytes != 0) return false;
  for (std::int64_t dim = 0; dim < x.dim(); ++dim)
    if (x.stride(dim) != 1 && x.stride(dim) * x.element_size() % kBytes != 0) return false;
  return true;
}

}  // namespace

bool attention(const AttentionInputs& inputs, const AttentionRecord& made) {
  const auto& [q, k, v, scale, documents, sinks] = inputs;
  if (!takes(q, documents)) return false;
  const Layout layout(q, documents);
  const auto result =
      at::_flash_attention_forward(layout.rows(q), layout.rows(k), layout.rows(v), layout.bounds_if_packed(),
                                   layout.bounds_if_packed(), layout.longest, layout.longest,
                                   /*dropout_p=*/0.0, /*is_causal=*/true, /*return_debug_mask=*/false, scale);
  layout.rows(made.out).copy_(std::get<0>(result));
  made.logsumexp.copy_(layout.ours(std::get<1>(result), made.logsumexp));
  return true;
}

bool attention_backward(const AttentionInputs& inputs, const AttentionRecord& made, const at::Tensor& d_out,
                        const AttentionGradients& gradients) {
  const auto& [q, k, v, scale, documents, sinks] = inputs;
  if (!takes(q, documents)) return false;
  const Layout layout(q, documents);
  const at::Tensor no_draws = at::empty({2}, q.options().dtype(at::kUInt64));
  const InOrder in_order;
  const auto result = at::_flash_attention_backward(
      layout.rows(d_out), layout.rows(q), layout.rows(k), layout.rows(v), layout.rows(made.out),
      layout.theirs(made.logsumexp), layout.bounds, layout.bounds, layout.longest, layout.longest,
      /*dropout_p=*/0.0, /*is_causal=*/true, no_draws, no_draws, scale);
  layout.rows(gradients.q).copy_(std::get<0>(result));
  layout.rows(gradients.k).copy_(std::get<1>(result));
  layout.rows(gradients.v).copy_(std::get<2>(result));
  return true;
}

bool matmul(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into) {
  if (!is_of_bfloat16(a) || out.scalar_type() != at::kFloat) return false;
  at::Tensor target = out;
  // Some versions of addmm_out() require the addend of these types in bfloat16.
  if (into == Into::kReplace)
    at::mm_out(target, a, b, at::kFloat);
  else
    target.add_(at::mm(a, b, at::kFloat));
  return true;
}

bool multiply_groups(const at::Tensor& out, const at::Tensor& a, const RowBlock& block, const at::Tensor& b) {
  if (!is_of_bfloat16(a) || out.scalar_type() != at::kBFloat16 || out.size(1) % 8 != 0 || !is_aligned(a) ||
      !is_aligned(b) || !has_grouped_products())
    return false;
  out.copy_(at::_grouped_mm(a, b, block.ends));
  return true;
}

#else

bool attention(const AttentionInputs&, const AttentionRecord&) { return false; }
bool attention_backward(const AttentionInputs&, const AttentionRecord&, const at::Tensor&,
                        const AttentionGradients&) {
  return false;
}
bool matmul(const at::Tensor&, const at::Tensor&, const at::Tensor&, Into) { return false; }
bool multiply_groups(const at::Tensor&, const at::Tensor&, const RowBlock&, const at::Tensor&) {
  return false;
}

#endif

}  // namespace sluice::ops::device::cuda_library
