#include "corpus/ordered_work.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

namespace sluice::corpus {
namespace {

using Work = OrderedWork<int, int>;

/// 0, 1, 2, ... up to `count`, which must live as long as what is returned.
Work::Make counted(int count, std::atomic<int>& made) {
  return [count, &made]() -> std::optional<int> {
    if (made == count) return std::nullopt;
    return made++;
  };
}

/// Early ones take longest.
Work::Turn doubled() {
  return [](int value) {
    std::this_thread::sleep_for(std::chrono::microseconds(value % 7 == 0 ? 2000 : 10));
    return 2 * value;
  };
}

TEST(OrderedWork, gives_what_threads_made_in_the_order_of_the_inputs) {
  for (const std::size_t threads : {1U, 4U}) {
    std::atomic<int> made = 0;
    Work work(counted(200, made), doubled, threads);
    std::vector<int> taken;
    while (const std::optional<int> value = work.take()) taken.push_back(*value);
    std::vector<int> expected(200);
    for (int i = 0; i < 200; ++i) expected[static_cast<std::size_t>(i)] = 2 * i;
    EXPECT_EQ(taken, expected);
  }
}

TEST(OrderedWork, holds_a_bounded_number_of_inputs_however_long_nobody_takes) {
  std::atomic<int> made = 0;
  Work work(counted(10'000, made), doubled, 2);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LE(made, 3 * 2 + 1);
}

TEST(OrderedWork, an_exception_comes_in_its_place) {
  std::atomic<int> made = 0;
  const auto breaks_at_3 = [] {
    return Work::Turn([](int value) {
      if (value == 3) throw std::runtime_error("three");
      return value;
    });
  };
  Work work(counted(10, made), breaks_at_3, 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(work.take(), i);
  EXPECT_THROW(static_cast<void>(work.take()), std::runtime_error);
  EXPECT_EQ(work.take(), 4);
}

TEST(OrderedWork, what_makes_inputs_may_fail_too) {
  int left = 2;
  Work work(
      [&]() -> std::optional<int> {
        if (left == 0) throw std::runtime_error("no more");
        return left--;
      },
      doubled, 2);
  EXPECT_EQ(work.take(), 4);
  EXPECT_EQ(work.take(), 2);
  EXPECT_THROW(static_cast<void>(work.take()), std::runtime_error);
}

}  // namespace
}  // namespace sluice::corpus
