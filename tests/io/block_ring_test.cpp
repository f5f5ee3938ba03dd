#include "io/blocks/block_ring.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/memory/memory.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

namespace sluice {
namespace {

void wait_for_block(BlockRing& ring, std::size_t block) {
  while (!ring.is_done(block)) std::this_thread::sleep_for(std::chrono::microseconds(100));
}

TEST(BlockRing, reads_ahead_into_every_slot_in_turn) {
  for (const int threads : {1, 3}) {
    constexpr std::size_t kBlocks = 50, kSlots = 4;
    std::array<std::size_t, kSlots> slots{};
    BlockRing ring("reads", {kSlots, threads, kBlocks},
                   [&](std::size_t block, std::size_t slot) { slots[slot] = block; });
    ring.give(kSlots);
    for (std::size_t block = 0; block < kBlocks; ++block) {
      wait_for_block(ring, block);
      EXPECT_EQ(slots[block % kSlots], block);
      ring.give();
    }
  }
}

TEST(BlockRing, writes_behind_in_order) {
  constexpr std::size_t kSlots = 3;
  std::array<int, kSlots> slots{};
  std::vector<int> written;
  BlockRing ring("writes", {.slots = kSlots},
                 [&](std::size_t, std::size_t slot) { written.push_back(slots[slot]); });
  std::vector<int> expected;
  for (std::size_t block = 0; block < 100; ++block) {
    if (block >= kSlots) wait_for_block(ring, block - kSlots);
    slots[block % kSlots] = static_cast<int>(7 * block);
    expected.push_back(static_cast<int>(7 * block));
    ring.give();
  }
  ring.wait();
  EXPECT_EQ(written, expected);
}

TEST(BlockRing, never_works_on_a_slot_that_is_not_given) {
  std::atomic<std::size_t> begun = 0;
  BlockRing ring("reads", {3, 2, 10}, [&](std::size_t, std::size_t) { ++begun; });
  EXPECT_FALSE(ring.is_done(0));
  ring.give(3);
  ring.wait();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(begun, 3u);
  EXPECT_FALSE(ring.is_done(3));
  ring.give();
  wait_for_block(ring, 3);
  EXPECT_EQ(begun, 4u);
}

TEST(BlockRing, refuses_a_slot_that_is_still_under_way) {
  std::mutex disk;
  BlockRing ring("writes", {.slots = 2},
                 [&](std::size_t, std::size_t) { const std::scoped_lock wait(disk); });
  // Let go before the ring ends, which waits for the block that a thread may have begun.
  const std::scoped_lock stuck(disk);
  ring.give(2);
  test::expect_error(ExitCode::kInternal, {"block 2"}, [&] { ring.give(); });
}

TEST(BlockRing, throws_what_a_thread_threw_at_the_next_call_and_does_no_more) {
  std::atomic<std::size_t> last = 0;
  const auto work = [&](std::size_t block, std::size_t) {
    last = block;
    if (block == 1) fail(ExitCode::kIo, "the disk is gone");
  };
  BlockRing ring("writes", {.slots = 4}, work);
  ring.give(4);
  test::expect_error(ExitCode::kIo, {"the disk is gone"}, [&] { ring.wait(); });
  test::expect_error(ExitCode::kIo, {"the disk is gone"}, [&] { static_cast<void>(ring.is_done(0)); });
  EXPECT_EQ(last, 1u);
}

/// Exit status of a process that asks for more threads than their stacks may take.
[[noreturn]] void start_under_limit() {
  const DataGrowthLimit limit(32 * kMiB);
  try {
    const BlockRing ring("reads the checkpoint", {4, 100, 1000}, [](std::size_t, std::size_t) {});
  } catch (const Error& error) {
    const bool is_plain = std::string_view(error.what()).find("of 100 that read") != std::string_view::npos;
    std::_Exit(is_plain ? static_cast<int>(error.code()) : 1);
  }
  std::_Exit(0);
}

TEST(BlockRingDeathTest, threads_that_the_system_refuses_are_an_error) {
  EXPECT_EXIT(start_under_limit(), testing::ExitedWithCode(static_cast<int>(ExitCode::kInternal)), "");
}

TEST(BlockRing, ends_early_without_waiting_for_blocks_that_nobody_needs) {
  std::atomic<int> done = 0;
  {
    BlockRing ring("reads", {2, 2, 1'000'000}, [&](std::size_t, std::size_t) { ++done; });
    ring.give(2);
  }
  EXPECT_LE(done, 2);
}

TEST(BlockRing, has_nothing_to_do_without_blocks) {
  BlockRing ring("reads", {2, 2, 0}, [](std::size_t, std::size_t) { FAIL(); });
  ring.give(2);
  ring.wait();
}

TEST(Workers, a_wait_ends_at_its_limit) {
  Workers workers("reads");
  Workers::Lock lock = workers.lock();
  EXPECT_FALSE(workers.wait(
      lock, [] { return false; }, 0.01));
  EXPECT_TRUE(workers.wait(
      lock, [] { return true; }, 0));
}

/// Exit status of a process whose thread never ends a task.
[[noreturn]] void stop_a_stuck_thread() {
  Workers workers("reads", /*patience_seconds=*/0.1);
  std::atomic<bool> has_begun = false;
  workers.start(1, [&] {
    return [&] {
      has_begun = true;
      for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
    };
  });
  while (!has_begun) std::this_thread::yield();
  workers.stop();
  std::_Exit(0);
}

TEST(WorkersDeathTest, a_thread_that_is_stuck_ends_the_process) {
  EXPECT_EXIT(stop_a_stuck_thread(), testing::ExitedWithCode(static_cast<int>(ExitCode::kIo)), "");
}

}  // namespace
}  // namespace sluice
