#include "ops/cpu/optimizer/weights.hpp"

namespace sluice::ops::cpu::optimizer {

OpenWeights::OpenWeights(std::byte* weights, std::byte* master, const UpdateFormats& formats,
                         std::int64_t offset, std::int64_t count)
    : weights_(weights), master_(master), formats_(formats), offset_(offset), count_(count) {
  if (formats.weights == DType::kFloat32)
    data_ = at_element<float>(weights, offset);
  else
    load();
}

void OpenWeights::load() {
  data_ = buffer_.data();
  const auto* rounded = at_element<std::uint16_t>(weights_, offset_);
  switch (formats_.master) {
    case MasterFormat::kFloat32:
      return read_master32(rounded, at_element<std::int16_t>(master_, offset_), count_, data_);
    case MasterFormat::k24Bit:
      return read_master24(rounded, at_element<std::int8_t>(master_, offset_), count_, data_);
    case MasterFormat::kNone:
      return read_bfloat16(rounded, count_, data_);
  }
}

void OpenWeights::save(const std::uint32_t* draws) {
  if (formats_.weights == DType::kFloat32) return;
  auto* rounded = at_element<std::uint16_t>(weights_, offset_);
  switch (formats_.master) {
    case MasterFormat::kFloat32:
      return write_master32(data_, count_, rounded, at_element<std::int16_t>(master_, offset_));
    case MasterFormat::k24Bit:
      return write_master24(data_, draws, count_, rounded, at_element<std::int8_t>(master_, offset_));
    case MasterFormat::kNone:
      return write_weights_stochastically(data_, draws, count_, rounded);
  }
}

}  // namespace sluice::ops::cpu::optimizer
