#include "base/fault.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace sluice {
namespace {

TEST(FaultPoint, does_nothing_without_a_hook) {
  ASSERT_EQ(fault_hook, nullptr);
  fault_point("test.site", 3);
}

TEST(FaultPoint, tells_the_hook_its_site_and_rank) {
  static std::string seen;
  fault_hook = [](std::string_view site, int rank, std::span<std::byte>) {
    seen = std::string(site) + ":" + std::to_string(rank);
  };
  fault_point("test.site", 3);
  fault_hook = nullptr;
  EXPECT_EQ(seen, "test.site:3");
}

TEST(FaultPoint, lets_the_hook_spoil_what_it_is_given) {
  fault_hook = [](std::string_view, int, std::span<std::byte> data) { data[0] = std::byte{7}; };
  std::byte byte{0};
  fault_point("test.site", 3, {&byte, 1});
  fault_hook = nullptr;
  EXPECT_EQ(byte, std::byte{7});
}

}  // namespace
}  // namespace sluice
