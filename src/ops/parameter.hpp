// A weight as the operations see it: views into buffers that someone else owns.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

namespace sluice::ops {

enum class Written : bool { kNo, kYes };

/// Whether each part of a gradient has been written in this step. A part that has not is uninitialised: its
/// first contribution overwrites it, so that no zeros need to be written before.
class GradientInitialized {
 public:
  explicit GradientInitialized(std::int64_t parts)
      : written_(static_cast<std::size_t>(parts), Written::kYes) {}
  /// Marks all parts as written, or none.
  void set_all(Written written) { std::ranges::fill(written_, written); }
  /// Whether the part has been written; marks it as written.
  bool add(std::int64_t part) {
    return std::exchange(written_[static_cast<std::size_t>(part)], Written::kYes) == Written::kYes;
  }
  [[nodiscard]] std::int64_t size() const { return std::ssize(written_); }

 private:
  std::vector<Written> written_;
};

/// Matrices of fused experts that memory holds in another form than that of numbers.
class ExpertMatrices {
 public:
  virtual ~ExpertMatrices() = default;
  ExpertMatrices(const ExpertMatrices&) = delete;
  ExpertMatrices& operator=(const ExpertMatrices&) = delete;
  /// That of an expert as numbers, [out, in], which stay until a matrix of another expert is asked for.
  [[nodiscard]] virtual at::Tensor matrix(std::int64_t expert) = 0;
  /// Writes rows [begin, end) of what matrix() is to `out`, dense, in the type of that. Several threads may
  /// call this at a time.
  virtual void write_rows(std::int64_t expert, std::int64_t begin, std::int64_t end, void* out) const = 0;

 protected:
  ExpertMatrices() = default;
};

/// A weight and where its gradient goes. Not an autograd leaf: an operation that uses it brings the gradient
/// to `grad` in its own backward and hands gradients of activations alone to autograd. Autograd runs that
/// backward only if an activation input requires a gradient, so whoever drives a layer sets requires_grad on
/// the layer's input.
///
/// `value` is float32 or bfloat16. Operations keep the tensor, never its address: its storage may be bound to
/// other memory between forward and backward, as long as the numbers are there again whenever an operation
/// runs. `grad` is a float32 view of the same shape, or undefined when no gradient is wanted. Rows are
/// contiguous in both; fused expert tensors may have gaps between experts.
///
/// `written` outlives all graphs; it has a part for each expert of a fused expert tensor, else one. Without
/// it every contribution is added to `grad`.
///
/// With `matrices`, which outlive all graphs, `value` says what the shape and the type of fused experts are,
/// and has no memory.
struct Parameter {
  at::Tensor value;
  at::Tensor grad;
  GradientInitialized* written = nullptr;
  ExpertMatrices* matrices = nullptr;
};

/// The matrix [out, in] of an expert of fused experts [experts, out, in].
[[nodiscard]] inline at::Tensor matrix_of(const Parameter& fused, std::int64_t expert) {
  return fused.matrices == nullptr ? fused.value[expert] : fused.matrices->matrix(expert);
}

/// Whether the next contribution to a part of the gradient is added to it or overwrites it. Call it once for
/// each contribution.
[[nodiscard]] inline bool adds_to_gradient(const Parameter& weight, std::int64_t part = 0) {
  return weight.written == nullptr || weight.written->add(part);
}

/// The gradient, to be added to: zeros if nothing of this step was written yet. For weights of one part.
[[nodiscard]] at::Tensor gradient_to_add_to(const Parameter& weight);

/// Zeros all parts of the gradient that were not written in this step.
void clear_unwritten_gradient(const Parameter& weight);
/// Clears the gradient of one part that nothing was written to.
void clear_unwritten_gradient(const Parameter& weight, std::int64_t part);

/// A small weight as a tensor of the graph that `anchor` belongs to, for formulas written in LibTorch's own
/// operations: a copy of `value`, whose gradient goes to `grad`. Part of a graph only if `anchor` is.
[[nodiscard]] at::Tensor in_graph(const Parameter& weight, const at::Tensor& anchor);

}  // namespace sluice::ops
