#include "base/boxes/coverage.hpp"

#include "support/error_of.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace sluice {
namespace {

using testing::HasSubstr;

std::vector<Coverage::Covered> joined(Coverage coverage) {
  return coverage.joined("plan", [](int place) { return fmt::format("place {}", place); });
}
std::string error(Coverage coverage) {
  return test::error_of([&] { static_cast<void>(joined(std::move(coverage))); });
}

TEST(BoxesOf, are_the_end_of_a_row_whole_rows_and_the_beginning_of_one) {
  const auto count_of = [](Range elements) {
    std::int64_t count = 0;
    for (const Box& box : boxes_of(elements, 5))
      if (!box.is_empty()) count += box.rows.count() * box.columns.count();
    return count;
  };
  for (std::int64_t begin = 0; begin < 20; ++begin)
    for (std::int64_t end = begin; end <= 20; ++end) EXPECT_EQ(count_of({begin, end}), end - begin);
  const auto [head, whole, tail] = boxes_of({3, 17}, 5);
  EXPECT_EQ(head.rows.begin, 0);
  EXPECT_EQ(head.columns.begin, 3);
  EXPECT_EQ(whole.rows.begin, 1);
  EXPECT_EQ(whole.rows.end, 3);
  EXPECT_EQ(tail.rows.begin, 3);
  EXPECT_EQ(tail.columns.end, 2);
}

TEST(Coverage, joins_ranges_that_touch_place_by_place) {
  Coverage coverage;
  coverage.add(1, Range{0, 4});
  coverage.add(0, Range{4, 6});
  coverage.add(0, Range{0, 4});
  coverage.add(0, Range{7, 8});
  EXPECT_EQ(joined(std::move(coverage)),
            (std::vector<Coverage::Covered>{{0, {0, 6}}, {0, {7, 8}}, {1, {0, 4}}}));
}

/// Columns of a matrix of 4 rows and 6 columns at element 10: two, a third in two parts, and three.
Coverage columns() {
  Coverage coverage;
  coverage.add(0, 10, 6, {{0, 4}, {3, 6}});
  coverage.add(0, 10, 6, {{3, 4}, {2, 3}});
  coverage.add(0, 10, 6, {{0, 4}, {0, 2}});
  coverage.add(0, 10, 6, {{0, 3}, {2, 3}});
  return coverage;
}

TEST(Coverage, boxes_below_and_beside_each_other_become_whole_rows) {
  EXPECT_EQ(joined(columns()), (std::vector<Coverage::Covered>{{0, {10, 34}}}));
}

TEST(Coverage, a_box_in_one_row_is_a_range) {
  Coverage coverage;
  coverage.add(0, 10, 6, {{1, 2}, {2, 5}});
  EXPECT_EQ(joined(std::move(coverage)), (std::vector<Coverage::Covered>{{0, {18, 21}}}));
}

TEST(Coverage, tells_gaps_and_whose_elements_are_there_twice) {
  Coverage coverage;
  coverage.add(3, Range{0, 4}, 30);
  coverage.add(1, Range{5, 9}, 11);
  coverage.add(1, Range{2, 6}, 12);
  coverage.add(1, Range{2, 3}, 13);
  coverage.add(2, Range{0, 1}, 20);  // nobody asks for it
  std::vector<std::string> found;
  for (const Coverage::Fault& f : coverage.faults(std::vector<Coverage::Whole>{{0, 3}, {1, 10}, {3, 4}}))
    found.push_back(fmt::format("{}: {}-{} {}", f.place, f.elements.begin, f.elements.end,
                                f.is_gap ? "gap" : fmt::format("{} and {}", f.owner, f.other)));
  EXPECT_EQ(found, (std::vector<std::string>{"0: 0-3 gap", "1: 0-2 gap", "1: 2-3 13 and 12",
                                             "1: 5-6 11 and 12", "1: 9-10 gap"}));
}

TEST(Coverage, names_what_is_written_twice_or_not_in_whole_rows) {
  Coverage twice = columns();
  twice.add(0, Range{12, 13});
  EXPECT_THAT(error(std::move(twice)), HasSubstr("element 12 of place 0 is written twice"));
  Coverage box_twice = columns();
  box_twice.add(0, 10, 6, {{0, 4}, {3, 6}});
  EXPECT_THAT(error(std::move(box_twice)), HasSubstr("place 0 on are not written whole"));
  Coverage gap;
  gap.add(0, 10, 6, {{0, 4}, {0, 2}});
  gap.add(0, 10, 6, {{0, 4}, {3, 6}});
  EXPECT_THAT(error(std::move(gap)), HasSubstr("4 rows of 6 elements from element 10"));
}

}  // namespace
}  // namespace sluice
