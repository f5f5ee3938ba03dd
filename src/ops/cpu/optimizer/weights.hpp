// Master weights as float32, a few at a time.
#pragma once

#include "ops/arithmetic/element.hpp"
#include "ops/buffers/optimizer.hpp"
#include "ops/cpu/formats.hpp"

#include <cstdint>

namespace sluice::ops::cpu::optimizer {

using arithmetic::at_element;

/// Up to kChunk master weights as float32: in place, or in a buffer that save() rounds and writes back.
class OpenWeights {
 public:
  /// Opens elements [offset, offset + count) of `weights` and `master`, stored in `formats`.
  OpenWeights(std::byte* weights, std::byte* master, const UpdateFormats& formats, std::int64_t offset,
              std::int64_t count);
  OpenWeights(const OpenWeights&) = delete;
  OpenWeights& operator=(const OpenWeights&) = delete;

  [[nodiscard]] float* data() { return data_; }
  /// Whether save() rounds stochastically.
  [[nodiscard]] bool draws() const {
    return formats_.weights == DType::kBFloat16 && formats_.master != MasterFormat::kFloat32;
  }
  /// Rounds the weights and writes them back. `draws` holds 32 random bits for each element if draws() is
  /// true.
  void save(const std::uint32_t* draws);

 private:
  void load();

  std::byte *weights_, *master_;
  const UpdateFormats& formats_;
  std::int64_t offset_, count_;
  float* data_ = nullptr;
  alignas(64) Floats buffer_;
};

}  // namespace sluice::ops::cpu::optimizer
