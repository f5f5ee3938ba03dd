// The kernels of products by processor. Internal to src/ops.
#pragma once

#include "ops/cpu/products/micro_kernel.hpp"
#include "ops/cpu/products/score_loops.hpp"

namespace sluice::ops::cpu::products {

// The file of a processor defines each of these, and ops/cpu/matmul.cpp lists it.
#if defined(__x86_64__)
extern const ProductKernel kAvx512, kAvx2, kAvx;
#endif
extern const ProductKernel kAnyProcessor;

/// Defines kernel `kName` from the loops of a MicroKernel, compiled with an attribute of functions.
// NOLINTBEGIN(bugprone-macro-parentheses): an attribute stands in no parentheses.
#define SLUICE_PRODUCT_KERNEL(kName, means, attribute, Loops)                                               \
  namespace {                                                                                               \
  attribute void widen(const Halves& from, float* to, const Runs& runs) { Loops::widen(from, to, runs); }   \
  attribute void widen_transposed(const Halves& from, float* to, const Runs& runs) {                        \
    Loops::widen_transposed(from, to, runs);                                                                \
  }                                                                                                         \
  attribute void round(const float* from, std::int64_t count, std::uint16_t* to) {                          \
    arithmetic::write_bfloat16(from, count, to);                                                            \
  }                                                                                                         \
  attribute void multiply(const float* left, std::int64_t rows, const float* right, std::int64_t depth,     \
                          const Sums& sums) {                                                               \
    Loops::multiply(left, rows, right, depth, sums);                                                        \
  }                                                                                                         \
  attribute void transpose(const float* from, std::int64_t rows, std::int64_t columns, std::int64_t stride, \
                           float* to, std::int64_t to_stride) {                                             \
    Loops::transpose(from, rows, columns, stride, to, to_stride);                                           \
  }                                                                                                         \
  attribute void join(const ScorePanels& scores, const RunningSoftmax& softmax, float* output,              \
                      std::int64_t width) {                                                                 \
    Loops::Scores::join(scores, softmax, output, width);                                                    \
  }                                                                                                         \
  attribute void differentiate(const ScoreGradients& block) { Loops::Scores::differentiate(block); }        \
  }                                                                                                         \
  constinit const ProductKernel kName {                                                                     \
    means, Loops::kBlockRows, Loops::kColumns, widen, widen_transposed, round, multiply, transpose, join,   \
        differentiate                                                                                       \
  }
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace sluice::ops::cpu::products
