#include "device/memory.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/memory/memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>

namespace sluice {
namespace {

using testing::HasSubstr;

std::string error_of_allocating(std::int64_t bytes) {
  try {
    const MemoryBlock block = allocate(MemoryKind::kPrivate, bytes, "the shard arena");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kTooLittle);
    return error.what();
  }
  return "nothing was thrown";
}

TEST(MemoryBlock, private_memory_is_zero_and_page_aligned) {
  const MemoryBlock block = allocate(MemoryKind::kPrivate, 3 * kMiB + 5, "a test");
  EXPECT_EQ(block.bytes(), 3 * kMiB + 5);
  EXPECT_EQ(block.kind(), MemoryKind::kPrivate);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data()) % static_cast<std::uintptr_t>(getpagesize()), 0U);
  const std::span bytes(block.data(), static_cast<std::size_t>(block.bytes()));
  EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; }));
}

TEST(MemoryBlock, of_nothing_is_empty) {
  const MemoryBlock block = allocate(MemoryKind::kPrivate, 0, "a test");
  EXPECT_EQ(block.data(), nullptr);
  EXPECT_EQ(block.bytes(), 0);
}

TEST(MemoryBlock, moving_hands_the_memory_over) {
  MemoryBlock first = allocate(MemoryKind::kPrivate, 100, "a test");
  std::byte* const data = first.data();
  MemoryBlock second(std::move(first));
  EXPECT_EQ(second.data(), data);
  MemoryBlock third = allocate(MemoryKind::kPrivate, 200, "a test");
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.bytes(), 100);
  EXPECT_EQ(second.data(), nullptr);
}

TEST(MemoryBlock, gives_its_memory_back_to_the_system) {
  const std::int64_t before = sample_memory().anonymous_bytes;
  {
    const MemoryBlock block = allocate(MemoryKind::kPrivate, 64 * kMiB, "a test");
    std::fill_n(block.data(), block.bytes(), std::byte{1});
    EXPECT_GE(sample_memory().anonymous_bytes, before + 63 * kMiB);
  }
  EXPECT_LE(sample_memory().anonymous_bytes, before + 8 * kMiB);
}

TEST(MemoryBlock, too_much_names_purpose_and_sizes) {
  const std::string text = error_of_allocating(std::numeric_limits<std::int64_t>::max() / 2);
  EXPECT_THAT(text, HasSubstr("the shard arena"));
  EXPECT_THAT(text, HasSubstr("4611686018427387903 bytes"));
  EXPECT_THAT(text, HasSubstr("available"));
}

}  // namespace
}  // namespace sluice
