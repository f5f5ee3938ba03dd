#include "weights/copy_agreement.hpp"

#include "support/error_of.hpp"
#include "support/mpi_test.hpp"
#include "support/temporary_directory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>

namespace sluice {
namespace {

constexpr std::array kReaders{0, 1};

/// What ranks that read copies of 40 files say of them, where rank 1 has another file of this name.
std::string said_of_copies(std::string_view other) {
  const test::TemporaryDirectory directory;
  Communicator& world = test::test_world();
  CheckpointIndex index;
  for (int i = 0; i < 40; ++i) {
    const std::string name = fmt::format("file-{:02}", i);
    const bool differs = world.rank() == 1 && name == other;
    index.files.push_back({name, 5});
    static_cast<void>(directory.write(name, differs ? "whalf" : "whale"));
  }
  return test::error_of([&] { agree_on_source(world, index, directory.path(), kReaders); });
}

TEST(CopyAgreement, names_the_files_that_differ_and_the_ranks_that_have_them) {
  EXPECT_EQ(said_of_copies("none"), "");
  for (const std::string file : {"file-00", "file-34", "file-39"}) {
    const std::string said = said_of_copies(file);
    EXPECT_THAT(said, testing::HasSubstr(file + " on rank 1"));
    EXPECT_EQ(said.find("file-"), said.rfind("file-")) << said;
  }
}

}  // namespace
}  // namespace sluice
