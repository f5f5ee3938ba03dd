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

TEST(Log, prefixed_lines_go_to_stderr_from_its_level_on_and_all_to_the_file) {
  const auto file = std::filesystem::temp_directory_path() / fmt::format("sluice-log-{}.txt", getpid());
  log::set_rank(1, 3);
  log::add_file(file.string());
  testing::internal::CaptureStderr();
  log::set_level(log::Level::kInfo);
  log::debug("what this rank did");
  log::info("braces {{}} and {}", 5);
  const std::string printed = testing::internal::GetCapturedStderr();
  std::ostringstream written;
  written << std::ifstream(file).rdbuf();
  std::filesystem::remove(file);
  EXPECT_THAT(printed, testing::MatchesRegex("\\[1/3\\] ..:..:.. I braces \\{\\} and 5\n"));
  EXPECT_THAT(written.str(), testing::MatchesRegex("\\[1/3\\] ..:..:.. D what this rank did\n.*"));
  EXPECT_THAT(written.str(), testing::EndsWith("\n" + printed));
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
