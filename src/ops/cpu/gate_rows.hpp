// Access to a row of gate and up projections, in two matrices or interleaved in one. Internal to src/ops.
#pragma once

#include "base/error.hpp"
#include "ops/cpu/kernel.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace sluice::ops::cpu {

/// The rows of gate and up [n, I], which are separate matrices, or the even and the odd columns of one matrix
/// [n, 2I].
template <class T>
class GateRows {
 public:
  GateRows(const at::Tensor& gate, const at::Tensor& up)
      : gates_(gate), ups_(up), width_(gate.size(1)), takes_turns_(gate.size(1) > 1 && gate.stride(1) == 2) {
    SLUICE_ASSERT(!takes_turns_ || (up.stride(1) == 2 && ups_.data == gates_.data + 1),
                  "gate and up must lie apart, or alternate in one matrix");
  }

  /// Calls visit(first column, count, gate, up) for consecutive parts of a row, which together cover it.
  template <class Visit>
  void read(std::int64_t row, Visit&& visit) const {
    if (!takes_turns_) return visit(std::int64_t{0}, width_, gates_[row], ups_[row]);
    in_chunks(row, [&](T* /*pairs*/, std::int64_t begin, std::int64_t count, T* gate, T* up) {
      visit(begin, count, gate, up);
    });
  }

  /// Visits a row, and writes the gate and up values that `visit` changed back in place.
  template <class Visit>
  void change(std::int64_t row, Visit&& visit) const {
    if (!takes_turns_) return visit(std::int64_t{0}, width_, gates_[row], ups_[row]);
    in_chunks(row, [&](T* pairs, std::int64_t begin, std::int64_t count, T* gate, T* up) {
      visit(begin, count, gate, up);
      kernel::join_pairs(gate, up, count, pairs);
    });
  }

 private:
  static constexpr std::int64_t kChunk = 512;

  template <class Work>
  void in_chunks(std::int64_t row, Work&& work) const {
    std::array<T, kChunk> gate, up;
    for (std::int64_t begin = 0; begin < width_; begin += kChunk) {
      T* const pairs = gates_[row] + 2 * begin;
      const std::int64_t count = std::min(kChunk, width_ - begin);
      kernel::split_pairs(pairs, count, gate.data(), up.data());
      work(pairs, begin, count, gate.data(), up.data());
    }
  }

  kernel::Rows<T> gates_, ups_;
  std::int64_t width_;
  bool takes_turns_;
};

}  // namespace sluice::ops::cpu
