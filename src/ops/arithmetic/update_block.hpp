// A few elements of a run as float32, read and written in the loop that computes with them.
#pragma once

#include "ops/arithmetic/element.hpp"
#include "ops/arithmetic/formats.hpp"
#include "ops/buffers/optimizer.hpp"

#include <array>
#include <cstdint>

namespace sluice::ops::arithmetic {

/// The moments that an optimizer keeps.
enum class Moments : bool { kFirst, kFirstAndSecond };

/// Elements [offset, offset + count) of a run, count <= kMost, as float32: in place, or converted into
/// buffers of this object, which save() writes back. Compiled into its caller, for the caller's processor.
/// With 8-bit state the elements begin and end where scales do, or with the run; or several blocks share a
/// scale, which their owner finds for all of them before it calls save_numbers().
template <std::int64_t kMost>
class OpenBlock {
 public:
  SLUICE_ELEMENT OpenBlock(const UpdateRun& run, const UpdateFormats& formats, std::int64_t offset,
                           std::int64_t count, Moments moments)
      : run_(run),
        formats_(formats),
        offset_(offset),
        count_(count),
        has_second_(moments == Moments::kFirstAndSecond) {
    open_weights();
    open_gradient();
    open_first();
    if (has_second_) open_second();
  }
  OpenBlock(const OpenBlock&) = delete;
  OpenBlock& operator=(const OpenBlock&) = delete;

  [[nodiscard]] SLUICE_ELEMENT std::int64_t count() const { return count_; }
  [[nodiscard]] SLUICE_ELEMENT float* weights() { return weights_; }
  [[nodiscard]] SLUICE_ELEMENT float* first() { return first_; }
  /// Second moments, or their square roots if has_roots().
  [[nodiscard]] SLUICE_ELEMENT float* second() { return second_; }
  [[nodiscard]] SLUICE_ELEMENT bool has_float32_state() const {
    return formats_.state == StateFormat::kFloat32;
  }
  [[nodiscard]] SLUICE_ELEMENT bool has_roots() const { return formats_.state == StateFormat::kInt8; }
  [[nodiscard]] SLUICE_ELEMENT const float* gradient() const { return gradient_; }

  SLUICE_ELEMENT void save() {
    find_scales();
    save_numbers();
  }
  /// Saves the values with scales that were found before.
  SLUICE_ELEMENT void save_numbers() {
    alignas(64) std::array<std::uint32_t, kMost> draws;
    if (weights_draw() || (has_second_ && formats_.state == StateFormat::kBFloat16))
      arithmetic::draw(run_.draws, run_.begin + offset_, count_, draws.data());
    save_weights(draws.data());
    save_first();
    if (has_second_) save_second(draws.data());
  }

  /// Largest magnitudes that the scales must represent, as integers in order (arithmetic::magnitude): of the
  /// first moments, and of the roots of the second moments.
  [[nodiscard]] SLUICE_ELEMENT std::int32_t first_magnitude() const { return largest(first_); }
  [[nodiscard]] SLUICE_ELEMENT std::int32_t second_magnitude() const {
    return has_second_ ? largest(second_) : 0;
  }
  SLUICE_ELEMENT void set_scales(std::int32_t first, std::int32_t second) const {
    *scales(run_.first_scales) = float_of(static_cast<std::uint32_t>(first));
    if (has_second_) *scales(run_.second_scales) = float_of(static_cast<std::uint32_t>(second));
  }

 private:
  using Buffer = std::array<float, kMost>;

  [[nodiscard]] SLUICE_ELEMENT bool weights_draw() const {
    return formats_.weights == DType::kBFloat16 && formats_.master != MasterFormat::kFloat32;
  }
  [[nodiscard]] SLUICE_ELEMENT std::int32_t largest(const float* x) const {
    return magnitude(largest_magnitude(x, count_));
  }
  template <class T>
  [[nodiscard]] SLUICE_ELEMENT T* here(std::byte* data) const {
    return at_element<T>(data, offset_);
  }
  [[nodiscard]] SLUICE_ELEMENT float* scales(float* all) const { return all + offset_ / kStateBlock; }

  SLUICE_ELEMENT void open_weights() {
    weights_ = formats_.weights == DType::kFloat32 ? here<float>(run_.weights) : weights_buffer_.data();
    if (formats_.weights == DType::kFloat32) return;
    const auto* rounded = here<std::uint16_t>(run_.weights);
    switch (formats_.master) {
      case MasterFormat::kFloat32:
        return arithmetic::read_master32(rounded, here<std::int16_t>(run_.master), count_, weights_);
      case MasterFormat::k24Bit:
        return arithmetic::read_master24(rounded, here<std::int8_t>(run_.master), count_, weights_);
      case MasterFormat::kNone:
        return arithmetic::read_bfloat16(rounded, count_, weights_);
    }
  }
  SLUICE_ELEMENT void save_weights(const std::uint32_t* draws) {
    if (formats_.weights == DType::kFloat32) return;
    auto* rounded = here<std::uint16_t>(run_.weights);
    switch (formats_.master) {
      case MasterFormat::kFloat32:
        return arithmetic::write_master32(weights_, count_, rounded, here<std::int16_t>(run_.master));
      case MasterFormat::k24Bit:
        return arithmetic::write_master24(weights_, draws, count_, rounded, here<std::int8_t>(run_.master));
      case MasterFormat::kNone:
        return arithmetic::write_weights_stochastically(weights_, draws, count_, rounded);
    }
  }

  SLUICE_ELEMENT void open_gradient() {
    gradient_ = gradient_buffer_.data();
    if (formats_.gradient == DType::kFloat32)
      gradient_ = at_element<float>(run_.gradient, offset_);
    else
      arithmetic::read_bfloat16(at_element<std::uint16_t>(run_.gradient, offset_), count_,
                                gradient_buffer_.data());
  }

  SLUICE_ELEMENT void open_first() {
    first_ = formats_.state == StateFormat::kFloat32 ? here<float>(run_.first) : first_buffer_.data();
    if (formats_.state == StateFormat::kBFloat16)
      arithmetic::read_bfloat16(here<std::uint16_t>(run_.first), count_, first_);
    else if (formats_.state == StateFormat::kInt8)
      arithmetic::read_first_codes(here<std::int8_t>(run_.first), scales(run_.first_scales), count_, first_);
  }
  /// Finds all scales before anything is written: each is the end of a chain of comparisons, during which
  /// other work can proceed.
  SLUICE_ELEMENT void find_scales() {
    if (formats_.state != StateFormat::kInt8) return;
    arithmetic::find_scales(first_, count_, scales(run_.first_scales));
    if (has_second_) arithmetic::find_scales(second_, count_, scales(run_.second_scales));
  }
  SLUICE_ELEMENT void save_first() {
    if (formats_.state == StateFormat::kBFloat16)
      arithmetic::write_bfloat16(first_, count_, here<std::uint16_t>(run_.first));
    else if (formats_.state == StateFormat::kInt8)
      arithmetic::write_first_codes(first_, count_, here<std::int8_t>(run_.first), scales(run_.first_scales));
  }

  SLUICE_ELEMENT void open_second() {
    second_ = formats_.state == StateFormat::kFloat32 ? here<float>(run_.second) : second_buffer_.data();
    if (formats_.state == StateFormat::kBFloat16)
      arithmetic::read_bfloat16(here<std::uint16_t>(run_.second), count_, second_);
    else if (formats_.state == StateFormat::kInt8)
      arithmetic::read_root_codes(here<std::uint8_t>(run_.second), scales(run_.second_scales), count_,
                                  second_);
  }
  SLUICE_ELEMENT void save_second(const std::uint32_t* draws) {
    if (formats_.state == StateFormat::kBFloat16)
      arithmetic::write_moment_stochastically(second_, draws, count_, here<std::uint16_t>(run_.second));
    else if (formats_.state == StateFormat::kInt8)
      arithmetic::write_root_codes(second_, count_, here<std::uint8_t>(run_.second),
                                   scales(run_.second_scales));
  }

  const UpdateRun& run_;
  const UpdateFormats& formats_;
  const std::int64_t offset_, count_;
  const bool has_second_;
  float *weights_ = nullptr, *first_ = nullptr, *second_ = nullptr;
  const float* gradient_ = nullptr;
  alignas(64) Buffer weights_buffer_, first_buffer_, second_buffer_, gradient_buffer_;
};

}  // namespace sluice::ops::arithmetic
