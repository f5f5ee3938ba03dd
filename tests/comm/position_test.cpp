#include "comm/position.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <thread>

namespace sluice {
namespace {

TEST(Position, names_the_section_and_the_last_operations_newest_first) {
  position::enter("load");
  position::begin("barrier", 1);
  position::begin("all_gather", 2);
  EXPECT_EQ(position::short_text(), "section load, after all_gather #2");
  EXPECT_EQ(position::operations_text(2), "all_gather #2, barrier #1");
}

TEST(Position, remembers_256_operations) {
  for (int i = 0; i < 1000; ++i) position::begin("send", i);
  const std::string text = position::operations_text(1000);
  EXPECT_EQ(text.find("send #999"), 0U);
  EXPECT_NE(text.find("send #744"), std::string::npos);
  EXPECT_EQ(text.find("send #743"), std::string::npos);
}

TEST(Position, cuts_what_a_signal_handler_has_no_room_for) {
  position::enter(std::string(1000, 's'));
  std::array<char, 20> text{};
  EXPECT_EQ(position::write_short(text.data(), text.size()), 19U);
  EXPECT_EQ(std::string(text.data()), "section sssssssssss");
}

TEST(Position, counts_the_time_since_something_began_but_not_what_is_forgiven) {
  position::begin("send", 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_GE(position::seconds_since_progress(), 0.03);
  position::forgive(10);
  EXPECT_LT(position::seconds_since_progress(), 0);
}

}  // namespace
}  // namespace sluice
