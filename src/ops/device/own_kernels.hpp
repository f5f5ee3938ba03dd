// Own kernels for operations that LibTorch has no suitable kernel for: own_kernels.cu, or no_kernels.cpp in a
// build without CUDA. Kernels are queued on the compute stream. Internal to src/ops.
#pragma once

#include "base/random.hpp"
#include "ops/buffers/adafactor.hpp"
#include "ops/buffers/optimizer.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace sluice::ops::device {

/// Computes chosen [T, k] (int64) = the k largest of each row of scores [T, E] (float32), best first, as
/// router_rows(): the lower index first among equals, NaN after all numbers. LibTorch's topk() promises
/// neither order.
void choose_experts(const at::Tensor& scores, const at::Tensor& chosen);

/// Adds row t of rows [T, H] (float32 or bfloat16) to row ids[t] (int64) of table [V, H] (float32, rows may
/// be strided), in the order of t; rows whose id is `padding` are left out. LibTorch's index_add() adds in
/// any order.
void add_columns(const at::Tensor& rows, const at::Tensor& ids, std::int64_t padding,
                 const at::Tensor& table);

/// Adds to sums [N, width] (float32) for each token its rows among those of a block [count, width], in their
/// order, each times its weight (rounded to the rows' dtype; times 1 if undefined). row_of_slot [N * choices]
/// (int32) is -1 for a slot without a row. LibTorch's index_add() adds in any order.
void add_expert_rows(const at::Tensor& rows, const at::Tensor& row_of_slot, std::int64_t choices,
                     const at::Tensor& weights, const at::Tensor& sums);

/// Whether LibTorch has grouped products for this GPU: yes for H100 and B200, no for GB10.
[[nodiscard]] bool has_grouped_products();

/// Computes cpu::dropout_rows() on a GPU, with the same random draws.
void dropout_rows(const at::Tensor& x, double rate, const RandomStream& draws, std::int64_t first_row,
                  const at::Tensor& out);

void update_moments(std::span<const UpdateRun> runs, const UpdateFormats& formats, const MomentStep& step);

/// Read master values of bfloat16 weights as float32 [rows, columns], and write them back, rounded as their
/// format requires.
void read_masters(const FactoredRun& run, MasterFormat format, float* out);
void write_masters(const FactoredRun& run, MasterFormat format, const float* values);

}  // namespace sluice::ops::device
