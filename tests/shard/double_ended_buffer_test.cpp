#include "shard/double_ended_buffer.hpp"

#include "base/error.hpp"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(DoubleEndedBuffer, neighbours_lie_at_different_ends) {
  DoubleEndedBuffer room(MemoryKind::kPrivate, 96, "a test");
  const std::span<std::byte> first = room.take(64);
  const std::span<std::byte> second = room.take(32);
  EXPECT_EQ(first.data() + 64, second.data());
  room.give_back(first);
  const std::span<std::byte> third = room.take(60);
  EXPECT_EQ(third.data(), first.data());
  EXPECT_EQ(third.size(), 60u);
  room.give_back(second);
  EXPECT_EQ(room.take(36).data(), third.data() + 60);
}

TEST(DoubleEndedBuffer, refuses_a_third_and_what_would_reach_into_another) {
  DoubleEndedBuffer room(MemoryKind::kPrivate, 96, "a test");
  const std::span<std::byte> first = room.take(64);
  EXPECT_THROW(static_cast<void>(room.take(33)), Error);
  const std::span<std::byte> second = room.take(16);
  EXPECT_THROW(static_cast<void>(room.take(16)), Error);
  room.give_back(first);
  room.give_back(second);
  EXPECT_EQ(room.take(96).size(), 96u);
}

TEST(DoubleEndedBuffer, of_nothing_gives_nothing) {
  DoubleEndedBuffer room(MemoryKind::kPrivate, 0, "a test");
  EXPECT_TRUE(room.take(0).empty());
  room.give_back({});
  EXPECT_THROW(static_cast<void>(room.take(1)), Error);
}

}  // namespace
}  // namespace sluice
