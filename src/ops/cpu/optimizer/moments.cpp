// AdamW and Lion: formulas of float32 numbers, whatever they are kept in.
#include "ops/cpu/kernel.hpp"
#include "ops/cpu/optimizer/block.hpp"
#include "ops/cpu/optimizer/optimizer.hpp"
#include "ops/cpu/optimizer/runs.hpp"

#include <algorithm>
#include <cmath>

namespace sluice::ops::cpu {
namespace {

using optimizer::Chunk;
using optimizer::OpenBlock;

void require_formats(std::span<const UpdateRun> runs, const UpdateFormats& formats) {
  SLUICE_ASSERT(formats.weights == DType::kFloat32 || formats.weights == DType::kBFloat16, "weights of {}",
                name_of(formats.weights));
  SLUICE_ASSERT(formats.gradient == DType::kFloat32 || formats.gradient == DType::kBFloat16,
                "gradients of {}", name_of(formats.gradient));
  SLUICE_ASSERT(formats.weights == DType::kBFloat16 || formats.master == MasterFormat::kFloat32,
                "float32 weights are their own master");
  SLUICE_ASSERT(formats.state != StateFormat::kFactored, "factored moments are Adafactor's");
  if (formats.state != StateFormat::kInt8) return;
  for (const UpdateRun& run : runs)
    SLUICE_ASSERT(run.begin % kStateBlock == 0, "a run of 8-bit state begins at element {}", run.begin);
}

/// AdamWStep as the float32 factors of torch's formula.
struct AdamWFactors {
  float decay, beta1_rest, beta2, beta2_rest, root_correction2, eps, step_size, gradient_scale;
  AdamWFactors(const AdamWStep& step, const UpdateRun& run)
      : decay(run.decays ? static_cast<float>(1.0 - step.lr * step.weight_decay) : 1.0F),
        beta1_rest(static_cast<float>(1.0 - step.beta1)),
        beta2(static_cast<float>(step.beta2)),
        beta2_rest(static_cast<float>(1.0 - step.beta2)),
        root_correction2(static_cast<float>(std::sqrt(step.bias_correction2))),
        eps(static_cast<float>(step.eps)),
        step_size(static_cast<float>(step.lr / step.bias_correction1)),
        gradient_scale(run.gradient_scale) {}
};

/// `second` holds second moments, or their square roots.
template <bool kRoots>
SLUICE_ELEMENT void adamw(float* weights, float* m, float* second, const float* gradient, std::int64_t n,
                          const AdamWFactors& f) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = gradient[i] * f.gradient_scale;
    m[i] += f.beta1_rest * (g - m[i]);
    const float v = (kRoots ? second[i] * second[i] : second[i]) * f.beta2 + f.beta2_rest * g * g;
    const float root = std::sqrt(v);
    second[i] = kRoots ? root : v;
    const float denominator = root / f.root_correction2 + f.eps;
    weights[i] = weights[i] * f.decay - f.step_size * m[i] / denominator;
  }
}

SLUICE_ELEMENT void adamw_block(const UpdateRun& run, const UpdateFormats& formats, std::int64_t offset,
                                std::int64_t count, const AdamWFactors& f) {
  OpenBlock block(run, formats, offset, count, /*has_second=*/true);
  if (block.has_roots())
    adamw<true>(block.weights(), block.first(), block.second(), block.gradient(), count, f);
  else
    adamw<false>(block.weights(), block.first(), block.second(), block.gradient(), count, f);
  block.save();
}

SLUICE_VECTOR_CLONES void adamw_chunk(const Chunk& chunk, const UpdateFormats& formats,
                                      const AdamWFactors& factors) {
  const AdamWFactors f = factors;
  for (std::int64_t begin = 0; begin < chunk.count; begin += optimizer::kBlock) {
    const std::int64_t count = std::min(optimizer::kBlock, chunk.count - begin);
    if (count == optimizer::kBlock)
      adamw_block(*chunk.run, formats, chunk.offset + begin, optimizer::kBlock, f);
    else
      adamw_block(*chunk.run, formats, chunk.offset + begin, count, f);
  }
}

struct LionFactors {
  float decay, beta1, beta1_rest, beta2, beta2_rest, rate, gradient_scale;
  LionFactors(const LionStep& step, const UpdateRun& run)
      : decay(run.decays ? static_cast<float>(1.0 - step.lr * step.weight_decay) : 1.0F),
        beta1(static_cast<float>(step.beta1)),
        beta1_rest(static_cast<float>(1.0 - step.beta1)),
        beta2(static_cast<float>(step.beta2)),
        beta2_rest(static_cast<float>(1.0 - step.beta2)),
        rate(static_cast<float>(step.lr)),
        gradient_scale(run.gradient_scale) {}
};

SLUICE_ELEMENT void lion(float* weights, float* m, const float* gradient, std::int64_t n,
                         const LionFactors& f) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = gradient[i] * f.gradient_scale;
    const float c = m[i] * f.beta1 + f.beta1_rest * g;
    const float direction = c > 0 ? f.rate : c < 0 ? -f.rate : 0.0F;
    weights[i] = weights[i] * f.decay - direction;
    m[i] = m[i] * f.beta2 + f.beta2_rest * g;
  }
}

SLUICE_VECTOR_CLONES void lion_chunk(const Chunk& chunk, const UpdateFormats& formats,
                                     const LionFactors& factors) {
  const LionFactors f = factors;
  for (std::int64_t begin = 0; begin < chunk.count; begin += optimizer::kBlock) {
    const std::int64_t count = std::min(optimizer::kBlock, chunk.count - begin);
    OpenBlock block(*chunk.run, formats, chunk.offset + begin, count, /*has_second=*/false);
    lion(block.weights(), block.first(), block.gradient(), count, f);
    block.save();
  }
}

}  // namespace

void adamw_update(std::span<const UpdateRun> runs, const UpdateFormats& formats, const AdamWStep& step) {
  require_formats(runs, formats);
  optimizer::for_each_chunk(
      runs, [&](const Chunk& chunk) { adamw_chunk(chunk, formats, AdamWFactors(step, *chunk.run)); });
}

void lion_update(std::span<const UpdateRun> runs, const UpdateFormats& formats, const LionStep& step) {
  require_formats(runs, formats);
  optimizer::for_each_chunk(
      runs, [&](const Chunk& chunk) { lion_chunk(chunk, formats, LionFactors(step, *chunk.run)); });
}

void read_master(const std::byte* weights, const std::byte* master, MasterFormat format, std::int64_t first,
                 std::int64_t n, float* out) {
  const auto* rounded = optimizer::at_element<std::uint16_t>(weights, first);
  switch (format) {
    case MasterFormat::kFloat32:
      return optimizer::read_master32(rounded, optimizer::at_element<std::int16_t>(master, first), n, out);
    case MasterFormat::k24Bit:
      return optimizer::read_master24(rounded, optimizer::at_element<std::int8_t>(master, first), n, out);
    case MasterFormat::kNone:
      return optimizer::read_bfloat16(rounded, n, out);
  }
}

}  // namespace sluice::ops::cpu
