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

TEST(Log, records_line_by_line_in_files_what_stderr_was_told_already) {
  const std::string path = testing::TempDir() + "/sluice-recorded.log";
  std::remove(path.c_str());
  log::add_file(path);
  testing::internal::CaptureStderr();
  log::record(log::Level::kError, "step 1/2\n  loss 3\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(text, testing::ContainsRegex("E step 1/2\n.* E   loss 3\n$"));
}

TEST(Log, of_a_full_disk_is_told_once_and_ends_nothing) {
  log::add_file("/dev/full");
  testing::internal::CaptureStderr();
  log::record(log::Level::kInfo, "told already");
  log::warning("a line");
  const std::string told = testing::internal::GetCapturedStderr();
  log::close_files();
  EXPECT_EQ(told.find("lines of the log are lost"), told.rfind("lines of the log are lost")) << told;
  EXPECT_NE(told.find("lines of the log are lost"), told.npos) << told;
  EXPECT_NE(told.find("a line"), told.npos) << told;
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
