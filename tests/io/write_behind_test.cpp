#include "io/blocks/write_behind.hpp"

#include "base/bytes.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBlock = 64 * kKiB;
/// Two blocks, which take turns.
alignas(InputFile::kBlockBytes) std::array<std::byte, 2 * kBlock> memory;

std::span<std::byte> room(std::int64_t turn, std::int64_t bytes) {
  return {memory.data() + turn % 2 * kBlock, static_cast<std::size_t>(bytes)};
}

void fill(std::span<std::byte> block, char value) { std::ranges::fill(block, static_cast<std::byte>(value)); }

TEST(WriteBehind, a_new_file_has_every_block_and_its_length) {
  const test::TemporaryDirectory directory;
  const fs::path path = directory.path() / "new";
  std::string expected;
  WriteBehind file(path, WriteBehind::Target::kNewFile, kBlock);
  for (std::int64_t block = 0; block < 6; ++block) {
    const std::int64_t bytes = block == 5 ? 12345 : kBlock;
    const char value = static_cast<char>('a' + block);
    fill(room(block, bytes), value);
    expected.append(static_cast<std::size_t>(bytes), value);
    file.write({block * kBlock, room(block, bytes)});
  }
  file.close();
  EXPECT_EQ(read_text_file(path, kMiB), expected);
}

TEST(WriteBehind, an_empty_file_is_one) {
  const test::TemporaryDirectory directory;
  WriteBehind(directory.path() / "new", WriteBehind::Target::kNewFile, kBlock).close();
  EXPECT_EQ(fs::file_size(directory.path() / "new"), 0u);
}

TEST(WriteBehind, lines_lie_apart_in_a_file_that_others_write_too) {
  const test::TemporaryDirectory directory;
  const fs::path path = directory.path() / "found";
  write_text_file(path, std::string(20, '.'));
  for (const std::int64_t window : {0, 4}) {
    WriteBehind file(path, WriteBehind::Target::kFoundFile, window);
    const std::string lines = "aabbcc";
    file.write({3, std::as_bytes(std::span(lines)), 3, 6});
    file.close();
    EXPECT_EQ(read_text_file(path, kMiB), "...aa....bb....cc...");
  }
}

TEST(WriteBehind, what_the_system_refuses_is_an_error_at_the_next_call) {
  const test::TemporaryDirectory directory;
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  for (const WriteBehind::Target target : {WriteBehind::Target::kNewFile, WriteBehind::Target::kFoundFile}) {
    const fs::path path = directory.path() / "full";
    std::optional<WriteBehind> file;
    file.emplace(path, target, kBlock);
    const rlimit small{kBlock, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    for (const std::int64_t block : {0, 1}) file->write({block * kBlock, room(block, kBlock)});
    test::expect_error(ExitCode::kIo, {"full"}, [&] { file->write({2 * kBlock, room(0, kBlock)}); });
    test::expect_error(ExitCode::kIo, {"full"}, [&] { file->close(); });
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  }
}

TEST(WriteBehind, a_file_that_is_there_is_not_created_again) {
  const test::TemporaryDirectory directory;
  write_text_file(directory.path() / "taken", "x");
  test::expect_error(ExitCode::kIo, {"taken"}, [&] {
    const WriteBehind file(directory.path() / "taken", WriteBehind::Target::kNewFile, kBlock);
  });
}

}  // namespace
}  // namespace sluice
