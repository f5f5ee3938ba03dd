// Own kernels for a device, where LibTorch has none that will do: own_kernels.cu, or in a build without CUDA
// no_kernels.cpp. They are queued on the compute stream. Internal to src/ops.
#pragma once

#include "base/random.hpp"
#include "ops/buffers/adafactor.hpp"
#include "ops/buffers/optimizer.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace sluice::ops::device {

/// chosen [T, k] int64 = the k largest of each row of scores [T, E] float32, best first, as router_rows(): of
/// equal ones the lower index, and what is not a number after all numbers. LibTorch's topk() promises
/// neither.
void choose_experts(const at::Tensor& scores, const at::Tensor& chosen);

/// Adds row t of rows [T, H], float32 or bfloat16, to row ids[t] (int64) of table [V, H] (float32, its rows
/// may lie apart), in the order of t, but where the id is `padding`. LibTorch's index_add() takes any order.
void add_columns(const at::Tensor& rows, const at::Tensor& ids, std::int64_t padding,
                 const at::Tensor& table);

/// sums [N, width] float32 += for each token its rows among those of a block [count, width], in their order,
/// each times its weight (rounded to the rows' dtype; undefined: 1). row_of_slot [N * choices] int32: -1
/// where there is none. LibTorch's index_add() takes any order.
void add_expert_rows(const at::Tensor& rows, const at::Tensor& row_of_slot, std::int64_t choices,
                     const at::Tensor& weights, const at::Tensor& sums);

/// Whether LibTorch has grouped products for the GPU that is used: H100 and B200's, not those of GB10.
[[nodiscard]] bool has_grouped_products();

/// cpu::dropout_rows() on a GPU, with the same draws.
void dropout_rows(const at::Tensor& x, double rate, const RandomStream& draws, std::int64_t first_row,
                  const at::Tensor& out);

void update_moments(std::span<const UpdateRun> runs, const UpdateFormats& formats, const MomentStep& step);

/// Master values of bfloat16 weights as float32 [rows, columns], and back, rounded as their format wants it.
void read_masters(const FactoredRun& run, MasterFormat format, float* out);
void write_masters(const FactoredRun& run, MasterFormat format, const float* values);

}  // namespace sluice::ops::device
