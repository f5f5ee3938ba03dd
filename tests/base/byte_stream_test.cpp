#include "base/byte_stream.hpp"

#include "support/error_of.hpp"

#include <gmock/gmock.h>

#include <limits>

namespace sluice {
namespace {

TEST(ByteStream, gives_back_what_was_written) {
  ByteWriter out;
  out.number(std::numeric_limits<std::int64_t>::min());
  out.text(std::string("a\0b", 3));
  out.text("");
  out.number(-1);
  ByteReader in(out.bytes());
  EXPECT_EQ(in.number(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(in.text(), std::string("a\0b", 3));
  EXPECT_EQ(in.text(), "");
  EXPECT_FALSE(in.at_end());
  EXPECT_EQ(in.number(), -1);
  EXPECT_TRUE(in.at_end());
}

TEST(ByteStream, refuses_to_read_past_the_end) {
  ByteWriter out;
  out.number(9);  // a length without its text
  EXPECT_THAT(test::error_of([&] { static_cast<void>(ByteReader(out.bytes()).text()); }),
              testing::StartsWith("70: "));
  EXPECT_THAT(test::error_of([] { static_cast<void>(ByteReader("1234").number()); }),
              testing::StartsWith("70: "));
}

}  // namespace
}  // namespace sluice
