#include "ops/cpu/attention/work_sharing.hpp"

#include "ops/threads.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

namespace sluice::ops::cpu::attention_blocks {
namespace {

/// What a thread need not hold.
struct Nothing {};

constexpr std::int64_t kHeads = 3, kItems = 40;

TEST(ShareOut, does_each_item_once) {
  for (const int count : {1, 2, 3, 7}) {
    const Threads threads(count);
    std::vector<std::atomic<int>> times(kHeads * kItems);
    const auto work = [&](std::int64_t head, std::int64_t item) {
      ++times[static_cast<std::size_t>(head * kItems + item)];
    };
    share_out<Nothing>(kHeads, kItems, [&] { return work; });
    for (const auto& t : times) EXPECT_EQ(t, 1);
  }
}

TEST(ShareOut, takes_turns_in_the_order_of_the_items) {
  for (const int count : {1, 2, 3, 7}) {
    const Threads threads(count);
    OrderedAccumulation turns(kHeads);
    std::vector<std::vector<std::int64_t>> order(kHeads);
    const auto work = [&](std::int64_t head, std::int64_t item) {
      std::this_thread::yield();  // or one thread is done before another has begun
      turns.wait(head, item);
      order[static_cast<std::size_t>(head)].push_back(item);
      turns.end(head);
    };
    share_out<Nothing>(kHeads, kItems, [&] { return work; });
    for (const auto& items : order) {
      EXPECT_EQ(items.size(), kItems);
      EXPECT_TRUE(std::is_sorted(items.begin(), items.end()));
    }
  }
}

TEST(ShareOut, of_an_item_that_fails_ends_with_its_error_though_others_wait_for_it) {
  for (const int count : {1, 3, 7}) {
    const Threads threads(count);
    OrderedAccumulation turns(1);
    const auto work = [&](std::int64_t, std::int64_t item) {
      if (item % 5 == 4) {  // every fifth item runs on several threads
        turns.abandon();
        throw std::runtime_error("no memory");
      }
      turns.wait(0, item);
      turns.end(0);
    };
    EXPECT_THROW(share_out<Nothing>(1, kItems, [&] { return work; }), std::runtime_error);
  }
}

TEST(Waves, are_of_as_many_heads_as_there_are_threads) {
  const Threads threads(3);
  const std::vector<int> heads{0, 1, 2, 3, 4, 5, 6};
  std::vector<std::vector<int>> waves;
  for_each_wave(std::span<const int>(heads),
                [&](std::span<const int> wave) { waves.emplace_back(wave.begin(), wave.end()); });
  EXPECT_EQ(waves, (std::vector<std::vector<int>>{{0, 1, 2}, {3, 4, 5}, {6}}));
}

}  // namespace
}  // namespace sluice::ops::cpu::attention_blocks
