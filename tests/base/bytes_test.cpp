#include "base/bytes.hpp"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(ParseBytes, reads_numbers_with_every_unit) {
  EXPECT_EQ(parse_bytes("0"), 0);
  EXPECT_EQ(parse_bytes("4096B"), 4096);
  EXPECT_EQ(parse_bytes("17B"), 17);
  EXPECT_EQ(parse_bytes("3kB"), 3000);
  EXPECT_EQ(parse_bytes("5GB"), 5'000'000'000);
  EXPECT_EQ(parse_bytes("8MiB"), 8 * kMiB);
  EXPECT_EQ(parse_bytes("2TiB"), 2048 * kGiB);
  EXPECT_EQ(parse_bytes("1TB"), 1'000'000'000'000);
}

TEST(ParseBytes, reads_fractions_and_a_space) {
  EXPECT_EQ(parse_bytes("128.5GB"), 128'500'000'000);
  EXPECT_EQ(parse_bytes("0.5 KiB"), 512);
}

TEST(ParseBytes, reads_the_short_forms) {
  EXPECT_EQ(parse_bytes("8M"), 8'000'000);
  EXPECT_EQ(parse_bytes("8Mi"), 8 * kMiB);
  EXPECT_EQ(parse_bytes("128.5G"), 128'500'000'000);
  EXPECT_EQ(parse_bytes("2K"), 2000);
}

TEST(ParseBytes, refuses_a_number_without_a_unit_unless_it_is_zero) {
  EXPECT_EQ(parse_bytes("128.5"), std::nullopt);
  EXPECT_EQ(parse_bytes("4096"), std::nullopt);
}

TEST(ParseBytes, refuses_what_is_not_a_size) {
  for (const char* text : {"", " ", "MiB", "-1", "-1MiB", "8mib", "8 parsecs", "8MiBs", "1e3", "0x10", "inf",
                           "nan", " 8MiB", "8MiB ", "1,5GB", "5000000TiB", "99999999999999999999999"})
    EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
}

TEST(ParseLinkRate, reads_bits_and_bytes_a_second) {
  EXPECT_EQ(parse_link_rate("1Gbit"), 125'000'000);
  EXPECT_EQ(parse_link_rate("2.5Gbit"), 312'500'000);
  EXPECT_EQ(parse_link_rate("100MB"), 100'000'000);
  for (const char* text : {"", "bit", "1Gbits", "fast", "-1Gbit"})
    EXPECT_FALSE(parse_link_rate(text)) << text;
}

TEST(FormatBytes, uses_powers_of_1000) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1000), "1.00 kB");
  EXPECT_EQ(format_bytes(23'100'000'000), "23.10 GB");
  EXPECT_EQ(format_bytes(184'900'000'000'000), "184.90 TB");
}

TEST(FormatBytes, uses_powers_of_1024_for_memory_tables) {
  EXPECT_EQ(format_mib(0), "0.0 MiB");
  EXPECT_EQ(format_mib(kMiB + kMiB / 2), "1.5 MiB");
  EXPECT_EQ(format_mib(3 * kGiB), "3072.0 MiB");
}

}  // namespace
}  // namespace sluice
