#include "shard/rounded_floats.hpp"

#include "base/dtype.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace sluice {
namespace {

/// Number of elements that are copied aside at a time.
constexpr std::int64_t kBlock = 1024;
constexpr auto kBytes = static_cast<std::int64_t>(sizeof(std::uint16_t));

}  // namespace

void round_down_to(std::span<const float> values, std::byte* to) {
  std::array<std::uint16_t, kBlock> block;
  for (std::int64_t begin = 0; begin < std::ssize(values); begin += kBlock) {
    const std::int64_t count = std::min(kBlock, std::ssize(values) - begin);
    convert_elements(values.data() + begin, DType::kFloat32, block.data(), DType::kBFloat16, count);
    std::memcpy(to + begin * kBytes, block.data(), static_cast<std::size_t>(count * kBytes));
  }
}

void widen_up_from(const std::byte* from, std::span<float> values) {
  std::array<std::uint16_t, kBlock> block;
  for (std::int64_t end = std::ssize(values); end > 0;) {
    const std::int64_t begin = (end - 1) / kBlock * kBlock;
    std::memcpy(block.data(), from + begin * kBytes, static_cast<std::size_t>((end - begin) * kBytes));
    convert_elements(block.data(), DType::kBFloat16, values.data() + begin, DType::kFloat32, end - begin);
    end = begin;
  }
}

}  // namespace sluice
