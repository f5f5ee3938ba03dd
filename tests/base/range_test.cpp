#include "base/range.hpp"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Range, equal_parts_follow_each_other_and_differ_by_at_most_one) {
  for (const std::int64_t count : {0, 1, 5, 6, 41}) {
    for (const std::int64_t parts : {1, 3, 7}) {
      std::int64_t end = 0;
      for (std::int64_t i = 0; i < parts; ++i) {
        const Range part = equal_part(count, parts, i);
        EXPECT_EQ(part.begin, end);
        EXPECT_EQ(part.count(), count / parts + (i < count % parts ? 1 : 0)) << "earlier parts are larger";
        end = part.end;
      }
      EXPECT_EQ(end, count);
    }
  }
}

}  // namespace
}  // namespace sluice
