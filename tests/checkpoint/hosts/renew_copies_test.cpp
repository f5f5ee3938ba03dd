#include "checkpoint/hosts/renew_copies.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace sluice {
namespace {

TEST(MissingFiles, are_copies_on_a_second_disk_and_what_goes_along_on_all) {
  SavedStep step;
  const SavedEntry entry{"a", "weights", DType::kFloat32, {0, 10}, 0};
  for (const char* name : {"rank-00000", "rank-00001", "rank-00002"})
    step.files.push_back({name, 40, {entry}, {}});
  step.files.push_back({"config.json", 4, {}, {}});
  const FileHolders holders{{0, 1}, {1}, {0}, {1}};
  EXPECT_EQ(missing_files(step, holders, RankDisks({0, 1})),
            (std::vector<MissingFile>{{1, 0}, {3, 0}, {2, 1}}));
}

TEST(MissingFiles, are_none_where_all_disks_are_as_they_were_saved) {
  SavedStep step;
  step.files.push_back({"rank-00000", 40, {{"a", "weights", DType::kFloat32, {0, 10}, 0}}, {}});
  EXPECT_TRUE(missing_files(step, {{0, 2}}, RankDisks({0, 1, 2})).empty());
}

}  // namespace
}  // namespace sluice
