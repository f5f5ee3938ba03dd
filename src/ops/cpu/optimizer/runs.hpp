// Runs of elements, chunk by chunk as float32, threads sharing the chunks.
#pragma once

#include "ops/cpu/optimizer/weights.hpp"

#include <cstdint>
#include <functional>
#include <span>

namespace sluice::ops::cpu::optimizer {

/// Part of a run: `count` <= kChunk elements from the run's `offset`-th on.
struct Chunk {
  const UpdateRun* run = nullptr;
  std::int64_t offset = 0;
  std::int64_t count = 0;
};

/// Calls visit(chunk) for all of the runs' elements. Chunks begin at multiples of kStateBlock of a run.
void for_each_chunk(std::span<const UpdateRun> runs, const std::function<void(const Chunk&)>& visit);

/// A chunk's numbers as float32: where they lie, or converted into buffers of the object's own, which save()
/// writes back.
class OpenChunk {
 public:
  OpenChunk(const Chunk& chunk, const UpdateFormats& formats, bool has_second);
  OpenChunk(const OpenChunk&) = delete;
  OpenChunk& operator=(const OpenChunk&) = delete;

  [[nodiscard]] std::int64_t count() const { return chunk_.count; }
  [[nodiscard]] float* weights() { return weights_.data(); }
  [[nodiscard]] float* first() { return first_; }
  /// Second moments, or their square roots if has_roots().
  [[nodiscard]] float* second() { return second_; }
  [[nodiscard]] bool has_roots() const { return formats_.state == StateFormat::kInt8; }
  [[nodiscard]] const float* gradient() const { return gradient_; }
  void save();

 private:
  void open_first();
  void open_second();
  void save_first();
  void save_second(const std::uint32_t* draws);
  [[nodiscard]] float* first_scales() const { return run_.first_scales + chunk_.offset / kStateBlock; }
  [[nodiscard]] float* second_scales() const { return run_.second_scales + chunk_.offset / kStateBlock; }

  const Chunk chunk_;
  const UpdateRun& run_;
  const UpdateFormats& formats_;
  OpenWeights weights_;
  float *first_ = nullptr, *second_ = nullptr;
  const float* gradient_ = nullptr;
  alignas(64) Floats first_buffer_, second_buffer_, gradient_buffer_;
};

}  // namespace sluice::ops::cpu::optimizer
