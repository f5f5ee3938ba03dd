// Updates of flat shards, in one pass over memory, in any format of weights and state. The arrays of one call
// lie all in main memory or all in the device's.
#pragma once

#include "base/dtype.hpp"
#include "base/optimizer_mode.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

namespace sluice::ops {

/// Formats of the arrays that an update reads and writes.
struct UpdateFormats {
  DType weights = DType::kFloat32;   ///< type of the weights, kFloat32 or kBFloat16
  DType gradient = DType::kFloat32;  ///< type of the gradient, kFloat32 or kBFloat16
  /// format of the master weights; kFloat32 if the weights are float32 themselves
  MasterFormat master = MasterFormat::kFloat32;
  StateFormat state = StateFormat::kFloat32;  ///< format of the moments; any but kFactored
};

/// Consecutive elements of one matrix with their state; all memory is the caller's. Arrays that the formats
/// do not keep are null, and so is `master` of float32 weights, which are their own master.
struct UpdateRun {
  std::int64_t count = 0;
  /// Place of the first element in its matrix; with 8-bit state a multiple of kStateBlock.
  std::int64_t begin = 0;
  std::uint64_t draws = 0;  ///< key of the random numbers of this matrix in this step
  std::byte* weights = nullptr;
  /// Missing bits of the master weights: int16 [count] for kFloat32, int8 [count] for k24Bit
  /// (ops/cpu/formats.hpp).
  std::byte* master = nullptr;
  std::byte* first = nullptr;      ///< first moment: float, bfloat16 or int8 [count]
  std::byte* second = nullptr;     ///< second moment: float, bfloat16 or uint8 [count]; null with Lion
  float* first_scales = nullptr;   ///< scales of the first moment's 8-bit codes, one per kStateBlock elements
  float* second_scales = nullptr;  ///< scales of the second moment's 8-bit codes
  const std::byte* gradient = nullptr;
  float gradient_scale = 1;  ///< factor of the gradient: the clip factor
  bool decays = false;       ///< whether weight decay applies
};

/// Constants of one AdamW step.
struct AdamWStep {
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double bias_correction1 = 1;  ///< 1 - beta1^t, with t = 1 in the first step
  double bias_correction2 = 1;  ///< 1 - beta2^t, with t = 1 in the first step
};

/// Constants of one Lion step.
struct LionStep {
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
};

/// Constants of one step of an optimizer with moments of each element: torch.optim.AdamW, or Lion (Chen et
/// al. 2023, arXiv 2302.06675, algorithm 2).
using MomentStep = std::variant<AdamWStep, LionStep>;

/// Makes one step of AdamW or Lion for `runs`, with all threads. Weights are updated with the moments as they
/// are before they are rounded to their format.
void update_moments(std::span<const UpdateRun> runs, const UpdateFormats& formats, const MomentStep& step);

/// Reads master weights of bfloat16 weights as float32: n elements from element `first` on; `master` as in
/// UpdateRun.
void read_master(const std::byte* weights, const std::byte* master, MasterFormat format, std::int64_t first,
                 std::int64_t n, float* out);

}  // namespace sluice::ops
