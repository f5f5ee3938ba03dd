#include "base/digest.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>

namespace sluice {
namespace {

TEST(Digest, is_xxh3_128_in_canonical_order) {
  // Value of the reference tool: printf '' | xxhsum -H128
  EXPECT_EQ(digest_of("").hex(), "99aa06d3014798d86001c324468d497f");
}

TEST(Digest, has_32_digits_even_when_small) {
  EXPECT_EQ((Digest{0, 0xab}.hex()), "000000000000000000000000000000ab");
}

TEST(Digest, depends_on_the_seed) {
  const std::string text = "weights";
  const auto bytes = std::as_bytes(std::span(text));
  EXPECT_EQ(digest_of(bytes, 0), digest_of(text));
  EXPECT_NE(digest_of(bytes, 1), digest_of(text));
}

TEST(Digest, adds_modulo_two_to_the_128) {
  Digest sum{1, ~std::uint64_t{0}};
  EXPECT_EQ(sum += (Digest{0, 1}), (Digest{2, 0}));
  EXPECT_EQ(sum += (Digest{~std::uint64_t{0}, 5}), (Digest{1, 5}));
}

TEST(Digest, changes_with_any_byte) {
  std::string text(1000, 'a');
  const Digest original = digest_of(text);
  EXPECT_EQ(digest_of(std::string(1000, 'a')), original);
  for (std::size_t i = 0; i < text.size(); ++i) {
    text[i] = 'b';
    EXPECT_NE(digest_of(text), original);
    text[i] = 'a';
  }
}

}  // namespace
}  // namespace sluice
