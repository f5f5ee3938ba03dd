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

TEST_F(PathTest, a_link_that_leads_nowhere_is_named_with_its_place) {
  std::filesystem::create_symlink("gone/away", directory_ / "out");
  for (const std::filesystem::path& path : {directory_ / "out", directory_ / "out/below/it"}) {
    EXPECT_EQ(dangling_link_text(path),
              (directory_ / "out").string() + " is a link to gone/away, which is not there");
    test::expect_error(ExitCode::kIo, {(directory_ / "out").string(), "link to gone/away"},
                       [&] { make_directories(path); });
  }
  EXPECT_EQ(dangling_link_text(directory_ / "none"), "");
  make_directories(directory_ / "a/b");
  std::filesystem::create_symlink("a", directory_ / "to-a");
  EXPECT_EQ(dangling_link_text(directory_ / "to-a/b"), "");
}

}  // namespace
}  // namespace sluice
