#include "io/path.hpp"

#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

namespace sluice {
namespace {

class PathTest : public testing::Test {
 protected:
  /// A link to itself, of which the system does not say what is there, not even to root.
  PathTest() { std::filesystem::create_symlink("loop", directory_ / "loop"); }

  test::TemporaryDirectory directory_;
};

TEST_F(PathTest, what_is_there_is_told_apart_from_what_is_not) {
  const std::filesystem::path file = directory_.write("file", "x");
  EXPECT_TRUE(path_exists(file));
  EXPECT_FALSE(directory_exists(file));
  EXPECT_TRUE(directory_exists(directory_.path()));
  EXPECT_EQ(entries_in(directory_.path()).size(), 2U);
  for (const std::filesystem::path& none : {directory_ / "none", file / "below"}) {
    EXPECT_FALSE(path_exists(none));
    EXPECT_FALSE(directory_exists(none));
    EXPECT_TRUE(entries_in(none).empty());
  }
}

TEST_F(PathTest, what_the_system_does_not_say_is_no_absence) {
  const std::filesystem::path loop = directory_ / "loop";
  const std::string cause = std::to_string(ELOOP);
  test::expect_error(ExitCode::kIo, {loop.string(), cause}, [&] { static_cast<void>(path_exists(loop)); });
  test::expect_error(ExitCode::kIo, {loop.string(), cause},
                     [&] { static_cast<void>(directory_exists(loop)); });
  test::expect_error(ExitCode::kIo, {loop.string(), cause}, [&] { static_cast<void>(entries_in(loop)); });
}

}  // namespace
}  // namespace sluice
