#include "launch/handover.hpp"

#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(HandedFile, travels_with_what_tells_whether_another_is_the_same) {
  const test::TemporaryDirectory directory;
  const HandedFile file = HandedFile::describe(directory.write("a", "content"));
  const HandedFile arrived = nlohmann::json(file).get<HandedFile>();
  EXPECT_EQ(arrived.path, file.path);
  EXPECT_FALSE(arrived.stays);
  EXPECT_EQ(arrived.changed, file.changed);
  EXPECT_TRUE(arrived.has_same_content(file));
  EXPECT_FALSE(arrived.has_same_content(HandedFile::describe(directory.write("b", "CONTENT"))));
}

}  // namespace
}  // namespace sluice
