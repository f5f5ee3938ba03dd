#include "shard/rounded_floats.hpp"

#include "base/dtype.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace sluice {
namespace {

/// Numbers of which bfloat16 holds none.
std::vector<float> numbers(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = 1.0F / static_cast<float>(3 + i);
  return values;
}

TEST(RoundedFloats, are_those_of_bfloat16_in_the_memory_that_they_had) {
  for (const std::size_t count : {0, 1, 1023, 1024, 1025, 5000}) {
    for (const std::size_t before : {0, 1, 700}) {
      const std::vector<float> own = numbers(count);
      std::vector<float> all(before + count);
      std::ranges::copy(own, all.begin() + static_cast<std::ptrdiff_t>(before));
      auto* const bytes = reinterpret_cast<std::byte*>(all.data());
      round_down_to(std::span(all).subspan(before), bytes + 2 * before);
      widen_up_from(bytes + 2 * before, std::span(all).subspan(before));
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(all[before + i], bfloat16_value(bfloat16_bits(own[i]))) << "element " << i;
    }
  }
}

}  // namespace
}  // namespace sluice
