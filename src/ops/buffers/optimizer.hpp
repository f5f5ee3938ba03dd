// Updates of flat shards, in one pass over memory, whatever their numbers are kept in. Arrays lie on
// compute_device().
#pragma once

#include "base/dtype.hpp"
#include "base/optimizer_mode.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

namespace sluice::ops {

/// Formats of what an update reads and writes besides the weights.
struct UpdateFormats {
  DType weights = DType::kFloat32;               ///< kFloat32 or kBFloat16
  DType gradient = DType::kFloat32;              ///< kFloat32 or kBFloat16
  MasterFormat master = MasterFormat::kFloat32;  ///< kFloat32 if the weights are float32 themselves
  StateFormat state = StateFormat::kFloat32;     ///< format of the moments, any but kFactored
};

/// Consecutive elements of one matrix with their state, all of it the caller's. What the formats do not keep
/// is null; so is `master` of float32 weights, which are their own.
struct UpdateRun {
  std::int64_t count = 0;
  std::int64_t begin = 0;   ///< the first one's place in its matrix; of 8-bit state a multiple of kStateBlock
  std::uint64_t draws = 0;  ///< names the random numbers of this matrix in this step
  std::byte* weights = nullptr;
  std::byte* master =
      nullptr;  ///< kFloat32: int16 [count]; k24Bit: int8 [count] (ops/cpu/optimizer/formats.hpp)
  std::byte* first = nullptr;      ///< moment: float, bfloat16 or int8 [count]
  std::byte* second = nullptr;     ///< moment: float, bfloat16 or uint8 [count]; none with Lion
  float* first_scales = nullptr;   ///< scales of the first moment's 8-bit codes, one per kStateBlock elements
  float* second_scales = nullptr;  ///< scales of the second moment's 8-bit codes
  const std::byte* gradient = nullptr;
  float gradient_scale = 1;  ///< multiplies the gradient: the clip factor
  bool decays = false;       ///< whether weight decay applies
};

/// Constants of one AdamW step.
struct AdamWStep {
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double bias_correction1 = 1;  ///< 1 - beta1^t, t = 1 for the first step
  double bias_correction2 = 1;  ///< 1 - beta2^t
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

/// One step, all threads at work. The moments that the weights are updated with are those before they are
/// rounded to their format.
void update_moments(std::span<const UpdateRun> runs, const UpdateFormats& formats, const MomentStep& step);

/// Master weights of bfloat16 weights as float32: n elements from the `first`-th on, `master` as in
/// UpdateRun.
void read_master(const std::byte* weights, const std::byte* master, MasterFormat format, std::int64_t first,
                 std::int64_t n, float* out);

}  // namespace sluice::ops
