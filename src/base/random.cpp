#include "base/random.hpp"

#include "base/digest.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace sluice {
namespace {

std::pair<float, float> normal_pair(std::uint64_t bits) {
  const float u = open_unit_number(bits);
  const float angle =
      static_cast<float>((bits >> 16) & 0xffffff) * (0x1p-24f * 2 * std::numbers::pi_v<float>);
  const float radius = std::sqrt(-2 * std::log(u));
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

/// Least elements for another thread: about a quarter of a millisecond of normal numbers.
constexpr std::int64_t kElementsOfThread = 16 * std::int64_t{1024};

/// Calls draw(begin, end) for parts of [0, count), on as many threads as there are cores and elements for
/// them.
template <class Draw>
void draw_in_parts(std::int64_t count, const Draw& draw) {
  const auto cores = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  const std::int64_t parts = std::clamp<std::int64_t>(std::min(cores, count / kElementsOfThread), 1, 64);
  std::vector<std::jthread> threads;
  for (std::int64_t part = 1; part < parts; ++part) {
    const std::int64_t begin = count * part / parts, end = count * (part + 1) / parts;
    try {
      threads.emplace_back(draw, begin, end);
    } catch (const std::system_error&) {  // the system allows no more threads
      draw(begin, end);
    }
  }
  draw(0, count / parts);
}

/// Normal numbers [begin, end) of the stream of `key`.
void draw_normal(std::uint64_t key, std::int64_t begin, std::int64_t end, float standard_deviation,
                 float* out) {
  for (std::int64_t i = begin; i < end;) {
    const auto [even, odd] = normal_pair(random_bits(key, static_cast<std::uint64_t>(i / 2)));
    if (i % 2 == 0) {
      *out++ = even * standard_deviation;
      if (++i == end) return;
    }
    *out++ = odd * standard_deviation;
    ++i;
  }
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
  draw_in_parts(count, [=, key = key_](std::int64_t from, std::int64_t to) {
    draw_normal(key, begin + from, begin + to, standard_deviation, out + from);
  });
}

}  // namespace sluice
