#include "base/random.hpp"

#include "base/digest.hpp"

#include <cmath>
#include <numbers>
#include <utility>

namespace sluice {
namespace {

std::pair<float, float> normal_pair(std::uint64_t bits) {
  const float u = open_unit_number(bits);
  const float angle =
      static_cast<float>((bits >> 16) & 0xffffff) * (0x1p-24f * 2 * std::numbers::pi_v<float>);
  const float radius = std::sqrt(-2 * std::log(u));
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace

RandomStream::RandomStream(std::uint64_t seed, std::string_view name)
    : key_(mixed_bits(digest_of(name).low ^ mixed_bits(seed + 1))) {}

std::uint64_t RandomStream::bits(std::uint64_t index) const { return random_bits(key_, index); }

void RandomStream::uniform(std::int64_t begin, std::int64_t count, float* out) const {
  for (std::int64_t i = 0; i < count; ++i)
    out[i] = open_unit_number(bits(static_cast<std::uint64_t>(begin + i)));
}

void RandomStream::normal(std::int64_t begin, std::int64_t count, float standard_deviation,
                          float* out) const {
  const std::int64_t end = begin + count;
  for (std::int64_t i = begin; i < end;) {
    const auto [even, odd] = normal_pair(bits(static_cast<std::uint64_t>(i / 2)));
    if (i % 2 == 0) {
      *out++ = even * standard_deviation;
      if (++i == end) return;
    }
    *out++ = odd * standard_deviation;
    ++i;
  }
}

}  // namespace sluice
