#include "load/read_ahead.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/memory.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

namespace sluice {
namespace {

void wait_for_read(ReadAhead& ahead, std::size_t read) {
  while (!ahead.is_ready(read)) std::this_thread::sleep_for(std::chrono::microseconds(100));
}

TEST(ReadAhead, fills_every_slot_with_its_reads_in_turn) {
  for (const int threads : {1, 3}) {
    constexpr std::size_t kReads = 50;
    constexpr std::size_t kSlots = 4;
    std::array<std::size_t, kSlots> slots{};
    ReadAhead ahead(kReads, kSlots, threads, [&](std::size_t read, std::size_t slot) { slots[slot] = read; });
    for (std::size_t read = 0; read < kReads; ++read) {
      wait_for_read(ahead, read);
      EXPECT_EQ(slots[read % kSlots], read);
      ahead.release();
    }
  }
}

TEST(ReadAhead, never_overwrites_a_slot_that_is_not_released) {
  std::atomic<std::size_t> begun = 0;
  ReadAhead ahead(10, 3, 2, [&](std::size_t, std::size_t) { ++begun; });
  for (std::size_t read = 0; read < 3; ++read) wait_for_read(ahead, read);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(begun, 3u);
  EXPECT_FALSE(ahead.is_ready(3));
  ahead.release();
  wait_for_read(ahead, 3);
  EXPECT_EQ(begun, 4u);
}

TEST(ReadAhead, throws_what_a_read_threw) {
  ReadAhead ahead(5, 2, 2, [](std::size_t read, std::size_t) {
    if (read == 1) fail(ExitCode::kIo, "the disk is gone");
  });
  EXPECT_THROW(
      for (std::size_t read = 0; read < 5; ++read) {
        wait_for_read(ahead, read);
        ahead.release();
      },
      Error);
}

/// Exit status of a process that asks for more threads than their stacks may take.
[[noreturn]] void start_under_limit() {
  const DataGrowthLimit limit(32 * kMiB);
  try {
    const ReadAhead ahead(1000, 4, 100, [](std::size_t, std::size_t) {});
  } catch (const Error& error) {
    const bool is_plain = std::string_view(error.what()).find("of 100 that read") != std::string_view::npos;
    std::_Exit(is_plain ? static_cast<int>(error.code()) : 1);
  }
  std::_Exit(0);
}

TEST(ReadAheadDeathTest, threads_that_the_system_refuses_are_an_error) {
  EXPECT_EXIT(start_under_limit(), testing::ExitedWithCode(static_cast<int>(ExitCode::kInternal)), "");
}

TEST(ReadAhead, ends_early_without_waiting_for_reads_that_nobody_needs) {
  std::atomic<int> done = 0;
  {
    ReadAhead ahead(1'000'000, 2, 2, [&](std::size_t, std::size_t) { ++done; });
  }
  EXPECT_LE(done, 2);
}

TEST(ReadAhead, has_nothing_to_do_without_reads) {
  ReadAhead ahead(0, 2, 2, [](std::size_t, std::size_t) {});
}

}  // namespace
}  // namespace sluice
