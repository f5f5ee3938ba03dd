#include "io/staged_directory.hpp"

#include "io/file.hpp"
#include "support/error_of.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <gmock/gmock.h>

namespace sluice {
namespace {

namespace fs = std::filesystem;

TEST(StagedDirectory, shows_its_files_only_after_commit) {
  const test::TemporaryDirectory parent;
  const fs::path target = parent.path() / "new" / "model";
  StagedDirectory staged(target / "");
  write_text_file(staged.path() / "file", "x");
  EXPECT_FALSE(fs::exists(target));
  staged.commit();
  EXPECT_TRUE(fs::exists(target / "file"));
  EXPECT_FALSE(fs::exists(staged.path()));
}

TEST(StagedDirectory, vanishes_without_commit) {
  const test::TemporaryDirectory parent;
  {
    const StagedDirectory staged(parent.path() / "model");
    write_text_file(staged.path() / "file", "x");
  }
  EXPECT_TRUE(fs::is_empty(parent.path()));
}

TEST(StagedDirectory, names_what_a_killed_run_left) {
  const test::TemporaryDirectory parent;
  fs::create_directory(parent.path() / ".model.partial-1");
  testing::internal::CaptureStderr();
  StagedDirectory(parent.path() / "model").commit();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr(".model.partial-1 is unfinished"));
  EXPECT_TRUE(fs::exists(parent.path() / ".model.partial-1"));
}

TEST(StagedDirectory, takes_the_next_name_that_is_free_if_it_may) {
  const test::TemporaryDirectory parent;
  const fs::path target = parent.path() / "model";
  for (const char* taken : {"model", "model-1"}) {
    fs::create_directory(parent.path() / taken);
    write_text_file(parent.path() / taken / "file", "other");
  }
  StagedDirectory staged(target, IfTaken::kNextName);
  write_text_file(staged.path() / "file", "x");
  EXPECT_EQ(staged.commit(), parent.path() / "model-2");
  EXPECT_TRUE(fs::exists(parent.path() / "model-2" / "file"));
  EXPECT_EQ(fs::file_size(target / "file"), 5U) << "the other one's";
}

TEST(StagedDirectory, keeps_what_is_complete_but_cannot_be_named) {
  const test::TemporaryDirectory parent;
  const fs::path target = parent.path() / "model";
  fs::path kept;
  {
    StagedDirectory staged(target);
    kept = staged.path();
    write_text_file(kept / "file", "x");
    fs::create_directory(target);  // meanwhile
    write_text_file(target / "file", "other");
    EXPECT_THAT(test::error_of([&] { staged.commit(); }),
                testing::AllOf(testing::StartsWith("74: "), testing::HasSubstr(kept.string())));
  }
  EXPECT_TRUE(fs::exists(kept / "file"));
}

TEST(StagedDirectory, takes_the_name_of_an_empty_directory_but_of_nothing_else) {
  const test::TemporaryDirectory parent;
  const fs::path target = parent.path() / "model";
  fs::create_directory(target);
  StagedDirectory(target).commit();
  EXPECT_TRUE(fs::is_directory(target));
  write_text_file(target / "file", "x");
  EXPECT_THAT(test::error_of([&] { StagedDirectory again(target); }), testing::StartsWith("64: "));
  EXPECT_THAT(test::error_of([&] { StagedDirectory again(target / "file"); }), testing::StartsWith("64: "));
}

TEST(StagedDirectory, a_trial_says_nothing_of_others_that_are_made_meanwhile) {
  const test::TemporaryDirectory parent;
  const StagedDirectory other(parent.path() / "trial", IfTaken::kRefuse, Leftovers::kAreNoMatter);
  testing::internal::CaptureStderr();
  const StagedDirectory own(parent.path() / "trial", IfTaken::kRefuse, Leftovers::kAreNoMatter);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(StagedDirectory, a_target_that_is_a_link_to_nothing_is_refused_as_that) {
  const test::TemporaryDirectory parent;
  fs::create_symlink("gone", parent.path() / "model");
  test::expect_error(ExitCode::kUsage, {"model", "link to gone"},
                     [&] { const StagedDirectory staged(parent.path() / "model"); });
}

}  // namespace
}  // namespace sluice
