#include "verify/tensor_digest.hpp"

#include "base/error.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace sluice {
namespace {

std::vector<std::byte> counting_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i % 251);
  return bytes;
}

Digest digest_at_once(std::span<const std::byte> bytes) {
  TensorDigester digester(std::ssize(bytes));
  digester.add(0, bytes);
  EXPECT_TRUE(digester.fragments().empty());
  return digester.sum();
}

TEST(TensorDigester, adds_up_blocks_seeded_with_their_number) {
  for (const std::size_t size : {0, 1, 4095, 4096, 4097, 8192, 20000}) {
    const std::vector<std::byte> bytes = counting_bytes(size);
    Digest expected;
    for (std::size_t block = 0; block * 4096 < size; ++block)
      expected += digest_of(
          std::span(bytes).subspan(block * 4096, std::min<std::size_t>(4096, size - block * 4096)), block);
    EXPECT_EQ(digest_at_once(bytes), expected) << size;
  }
}

TEST(TensorDigester, keeps_its_values) {
  // From a program in C with 128-bit integers, of the definition alone.
  EXPECT_EQ(digest_at_once({}).hex(), "00000000000000000000000000000000");
  EXPECT_EQ(digest_at_once(counting_bytes(10)).hex(), "bd930669a87b4b37e67bf1ad8dcf73a8");
  EXPECT_EQ(digest_at_once(counting_bytes(10000)).hex(), "8908e38dcd4e306399fc0097b3094e3e");
}

TEST(TensorDigester, does_not_depend_on_pieces_or_their_order) {
  const std::vector<std::byte> bytes = counting_bytes(30011);
  for (const std::size_t piece : {1, 128, 4096, 5000, 12289}) {
    TensorDigester forward(std::ssize(bytes));
    TensorDigester backward(std::ssize(bytes));
    const std::size_t count = (bytes.size() + piece - 1) / piece;
    for (std::size_t i = 0; i < count; ++i) {
      const auto add = [&](TensorDigester& digester, std::size_t number) {
        const std::size_t begin = number * piece;
        digester.add(static_cast<std::int64_t>(begin),
                     std::span(bytes).subspan(begin, std::min(piece, bytes.size() - begin)));
      };
      add(forward, i);
      add(backward, count - 1 - i);
    }
    EXPECT_EQ(forward.sum(), digest_at_once(bytes)) << piece;
    EXPECT_EQ(backward.sum(), digest_at_once(bytes)) << piece;
    EXPECT_TRUE(forward.fragments().empty() && backward.fragments().empty()) << piece;
  }
}

TEST(TensorDigester, hands_on_what_others_must_complete) {
  const std::vector<std::byte> bytes = counting_bytes(20000);
  TensorDigester completing(20000);
  Digest sum;
  const std::vector<std::size_t> cuts{0, 100, 3000, 9000, 9001, 17000, 20000};
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    TensorDigester digester(20000);
    digester.add(static_cast<std::int64_t>(cuts[i]),
                 std::span(bytes).subspan(cuts[i], cuts[i + 1] - cuts[i]));
    sum += digester.sum();
    EXPECT_LE(digester.fragments().size(), 2u);
    for (const TensorDigester::Fragment& fragment : digester.fragments())
      completing.add(fragment.offset, std::as_bytes(std::span(fragment.bytes)));
  }
  EXPECT_TRUE(completing.fragments().empty());
  EXPECT_EQ(sum += completing.sum(), digest_at_once(bytes));
}

TEST(TensorDigester, refuses_bytes_outside_the_tensor_or_added_twice) {
  const std::vector<std::byte> bytes = counting_bytes(100);
  EXPECT_THROW(TensorDigester(99).add(0, bytes), Error);
  EXPECT_THROW(TensorDigester(150).add(51, bytes), Error);
  EXPECT_THROW(TensorDigester(150).add(-1, bytes), Error);
  TensorDigester digester(150);
  digester.add(0, bytes);
  EXPECT_THROW(digester.add(0, bytes), Error);
}

}  // namespace
}  // namespace sluice
