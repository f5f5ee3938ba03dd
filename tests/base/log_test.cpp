#include "base/log.hpp"

#include "base/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace sluice {
namespace {

TEST(Log, writes_prefixed_lines_at_its_level_to_stderr_and_file) {
  const auto file = std::filesystem::temp_directory_path() / fmt::format("sluice-log-{}.txt", getpid());
  log::set_rank(1, 3);
  log::add_file(file.string());
  testing::internal::CaptureStderr();
  log::set_level(log::Level::kInfo);
  log::debug("hidden");
  log::info("braces {{}} and {}", 5);
  const std::string printed = testing::internal::GetCapturedStderr();
  std::ostringstream written;
  written << std::ifstream(file).rdbuf();
  std::filesystem::remove(file);
  EXPECT_THAT(printed, testing::MatchesRegex("\\[1/3\\] ..:..:.. I braces \\{\\} and 5\n"));
  EXPECT_EQ(written.str(), printed);
}

TEST(Log, names_a_file_that_cannot_be_made) {
  try {
    log::add_file("/proc/no/such/folder/log.txt");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kIo);
    EXPECT_THAT(error.what(), testing::HasSubstr("/proc/no/such/folder/log.txt"));
    return;
  }
  FAIL() << "no error";
}

}  // namespace
}  // namespace sluice
