#include "checkpoint/step_directory.hpp"

#include "base/error.hpp"
#include "checkpoint/step_source.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <gmock/gmock.h>

#include <fstream>

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// A step without files.
void make_step(const fs::path& directory, std::int64_t step, std::int64_t attempt = 0) {
  fs::create_directories(directory / step_name(step));
  std::ofstream(directory / step_name(step) / kManifestFile)
      << to_manifest({.step = step, .attempt = attempt});
}

std::vector<std::int64_t> numbers(const std::vector<StepPlace>& steps) {
  std::vector<std::int64_t> out;
  for (const StepPlace& place : steps) out.push_back(place.step);
  return out;
}

TEST(StepDirectory, steps_that_cannot_be_looked_for_are_no_absence_of_steps) {
  const test::TemporaryDirectory directory;
  fs::create_symlink("loop", directory / "loop");
  test::expect_error(ExitCode::kIo, {"loop"}, [&] { static_cast<void>(list_steps(directory / "loop")); });
}

TEST(StepDirectory, lists_steps_alone_in_their_order) {
  const test::TemporaryDirectory directory;
  EXPECT_TRUE(list_steps(directory.path() / "none").empty());
  for (const std::int64_t step : {20, 3, 100000000}) make_step(directory.path(), step);
  for (const char* other :
       {"step-3", "step-0000000x", ".step-00000004.partial-1", "step-00000005.bak", "step--0000001"})
    fs::create_directory(directory.path() / other);
  EXPECT_EQ(numbers(list_steps(directory.path())), (std::vector<std::int64_t>{3, 20, 100000000}));
}

TEST(StepDirectory, finds_the_newest_step_that_is_whole) {
  const test::TemporaryDirectory directory;
  std::vector<std::string> broken;
  const auto newest = [&] {
    return step_in(directory.path(), kNewestStep, [&](const std::string& text) { broken.push_back(text); });
  };
  EXPECT_FALSE(newest());
  fs::create_directory(directory.path() / step_name(30));
  EXPECT_THROW(static_cast<void>(newest()), Error);
  broken.clear();
  make_step(directory.path(), 10);
  make_step(directory.path(), 20);
  EXPECT_EQ(newest()->step.step, 20);
  ASSERT_EQ(broken.size(), 1);
  EXPECT_THAT(broken.front(), testing::HasSubstr("step-00000030"));
}

TEST(StepDirectory, passes_over_a_newer_step_that_an_earlier_attempt_has_saved_late) {
  const test::TemporaryDirectory directory;
  std::vector<std::string> told;
  const auto newest = [&] {
    return step_in(directory.path(), kNewestStep, [&](const std::string& text) { told.push_back(text); })
        ->step.step;
  };
  make_step(directory.path(), 10, 1);
  make_step(directory.path(), 20, 2);
  EXPECT_EQ(newest(), 20);
  EXPECT_TRUE(told.empty());
  make_step(directory.path(), 30, 1);
  EXPECT_EQ(newest(), 20);
  ASSERT_EQ(told.size(), 1);
  EXPECT_THAT(told.front(), testing::HasSubstr("step-00000030 was saved by attempt 1"));
  make_step(directory.path(), 40, 3);
  EXPECT_EQ(newest(), 40);
}

TEST(StepDirectory, keeps_the_last_steps_and_every_so_many) {
  std::vector<StepPlace> steps;
  for (const std::int64_t step : {10, 20, 25, 30, 40}) steps.push_back({step, ""});
  EXPECT_EQ(numbers(steps_to_remove(steps, 2, 0)), (std::vector<std::int64_t>{10, 20, 25}));
  EXPECT_EQ(numbers(steps_to_remove(steps, 1, 20)), (std::vector<std::int64_t>{10, 25, 30}));
  EXPECT_EQ(numbers(steps_to_remove(steps, 2, 0, 20)), (std::vector<std::int64_t>{10, 25}))
      << "the best one stays";
  EXPECT_TRUE(steps_to_remove(steps, 5, 0).empty());
  EXPECT_TRUE(steps_to_remove(steps, 9, 0).empty());
}

TEST(StepDirectory, removes_a_step_with_all_that_is_in_it) {
  const test::TemporaryDirectory directory;
  make_step(directory.path(), 10);
  remove_step(directory.path() / step_name(10));
  EXPECT_TRUE(fs::is_empty(directory.path()));
}

}  // namespace
}  // namespace sluice
