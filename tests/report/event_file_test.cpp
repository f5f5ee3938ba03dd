#include "report/event_file.hpp"

#include <array>

namespace sluice {
namespace {

TEST(EventFile, sums_up_as_rfc_3720_says) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(""), 0U);
}

TEST(EventFile, frames_a_record_by_its_length_and_two_masked_sums) {
  const std::string record = tf_record("abc");
  ASSERT_EQ(record.size(), 8 + 4 + 3 + 4U);
  EXPECT_EQ(record.substr(0, 8), std::string("\3\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 3), "abc");
  // The mask of masks: rotated right by 15 and moved by a constant (TFRecord).
  const std::uint32_t crc = crc32c("abc"), masked = ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(static_cast<unsigned char>(record[15 + i]), (masked >> (8 * i)) & 0xff);
}

TEST(EventFile, writes_the_fields_of_event_and_summary) {
  const std::array scalars{EventScalar{"a", 1.0}};
  const std::string wall("\x09\0\0\0\0\0\0\xf0\x3f", 9);  // 1: double 1.0
  const std::string value(
      "\x0a\x01"
      "a"
      "\x15\0\0\x80\x3f",
      8);  // 1: "a", 2: float 1.0
  EXPECT_EQ(event_of_step(1.0, 300, scalars), wall + "\x10\xac\x02" + "\x2a\x0a" + "\x0a\x08" + value);
  EXPECT_EQ(event_file_version(1.0), wall + "\x1a\x0d" + "brain.Event:2");
}

}  // namespace
}  // namespace sluice
