// A parameter as operations see it: views of memory that someone else owns.
#pragma once

#include "encoding/coded_rows.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

namespace sluice::ops {

enum class Written : bool { kNo, kYes };

/// Whether each part of a gradient was written in this step. An unwritten part is uninitialised memory: its
/// first contribution overwrites it, so that no zeros have to be written before.
class GradientInitialized {
 public:
  explicit GradientInitialized(std::int64_t parts)
      : written_(static_cast<std::size_t>(parts), Written::kYes) {}
  /// Marks all parts as written, or none.
  void set_all(Written written) { std::ranges::fill(written_, written); }
  /// Returns whether the part was written before, and marks it as written.
  bool add(std::int64_t part) {
    return std::exchange(written_[static_cast<std::size_t>(part)], Written::kYes) == Written::kYes;
  }
  [[nodiscard]] std::int64_t size() const { return std::ssize(written_); }

 private:
  std::vector<Written> written_;
};

/// How a few rows are multiplied with codes: by the numbers that the codes stand for, with the result that
/// these numbers in bfloat16 have, or with each row rounded to integers of 8 bits, for answers alone.
enum class Products : std::uint8_t { kExact, kInt8 };

/// Matrices that memory does not hold as plain numbers: those of fused experts, or a single one, whose number
/// is 0.
class StoredMatrices {
 public:
  virtual ~StoredMatrices() = default;
  StoredMatrices(const StoredMatrices&) = delete;
  StoredMatrices& operator=(const StoredMatrices&) = delete;
  /// Matrix [out, in] of an expert as numbers, valid until the matrix of another expert, or of another layer,
  /// is asked for.
  [[nodiscard]] virtual at::Tensor matrix(std::int64_t expert) = 0;
  /// Writes rows [begin, end) of an expert's matrix to `out`, dense, in the type of matrix(). Several threads
  /// may call this at a time.
  virtual void write_rows(std::int64_t expert, std::int64_t begin, std::int64_t end, void* out) const = 0;
  /// All rows of an expert's matrix as memory holds them, in order; none if a row is cut.
  [[nodiscard]] virtual std::vector<CodedRows> coded_rows(std::int64_t expert) const = 0;
  /// How a few rows are multiplied with coded_rows().
  [[nodiscard]] virtual Products products() const = 0;

 protected:
  StoredMatrices() = default;
};

/// A parameter and the place of its gradient. Not an autograd leaf: an operation that uses it adds the
/// gradient to `grad` in its own backward, and hands only gradients of activations to autograd. Autograd runs
/// that backward only if an activation input requires a gradient, so whoever runs a layer sets requires_grad
/// on the layer's input.
///
/// `value` is float32 or bfloat16. Operations keep the tensor, never its address: its storage may be bound to
/// other memory between forward and backward, as long as the numbers are there again whenever an operation
/// runs. `grad` is a float32 view of the same shape, or undefined if no gradient is needed. Rows are
/// contiguous in both; fused expert tensors may have gaps between experts.
///
/// `written` outlives all graphs; it has a part for each expert of a fused expert tensor, else one part. If
/// it is null, every contribution is added to `grad`.
///
/// With `matrices`, which outlive all graphs, `value` gives shape and type alone, and has no memory.
struct Parameter {
  at::Tensor value;
  at::Tensor grad;
  GradientInitialized* written = nullptr;
  StoredMatrices* matrices = nullptr;
};

/// Matrix [out, in] of one expert of fused experts [experts, out, in].
[[nodiscard]] inline at::Tensor matrix_of(const Parameter& fused, std::int64_t expert) {
  return fused.matrices == nullptr ? fused.value[expert] : fused.matrices->matrix(expert);
}

/// Matrix [out, in] of a weight that is one matrix.
[[nodiscard]] inline at::Tensor matrix_of(const Parameter& weight) {
  return weight.matrices == nullptr ? weight.value : weight.matrices->matrix(0);
}

/// Whether the next contribution to a part of the gradient is added to it or overwrites it. Call it once for
/// each contribution.
[[nodiscard]] inline bool adds_to_gradient(const Parameter& weight, std::int64_t part = 0) {
  return weight.written == nullptr || weight.written->add(part);
}

/// Gradient to which a contribution can be added: zeros if nothing was written in this step. For parameters
/// of one part.
[[nodiscard]] at::Tensor gradient_to_add_to(const Parameter& weight);

/// Zeros all parts of the gradient that were not written in this step.
void clear_unwritten_gradient(const Parameter& weight);
/// Clears the gradient of one part that nothing was written to.
void clear_unwritten_gradient(const Parameter& weight, std::int64_t part);

/// A small parameter as a tensor in the graph of `anchor`, for formulas in LibTorch's own operations: a copy
/// of `value`, whose gradient goes to `grad`. Part of a graph only if `anchor` is.
[[nodiscard]] at::Tensor in_graph(const Parameter& weight, const at::Tensor& anchor);

}  // namespace sluice::ops
