#include "base/fault.hpp"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(FaultPoint, does_nothing_without_a_hook) {
  ASSERT_EQ(fault_hook, nullptr);
  fault_point("test.site", 3);
}

TEST(FaultPoint, tells_the_hook_its_site_and_rank) {
  static std::string seen;
  fault_hook = [](std::string_view site, int rank) { seen = std::string(site) + ":" + std::to_string(rank); };
  fault_point("test.site", 3);
  fault_hook = nullptr;
  EXPECT_EQ(seen, "test.site:3");
}

}  // namespace
}  // namespace sluice
