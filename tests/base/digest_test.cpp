#include "base/digest.hpp"

#include <gtest/gtest.h>

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
