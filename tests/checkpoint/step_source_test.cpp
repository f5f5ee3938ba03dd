#include "checkpoint/step_source.hpp"

#include "base/error.hpp"
#include "config/job_copy.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// A step without files, in a directory of steps.
void make_saved_step(const fs::path& directory, SavedStep step) {
  const fs::path path = directory / step_name(step.step);
  fs::create_directories(path);
  std::ofstream(path / kManifestFile) << to_manifest(step);
}

/// The directory of a run whose steps `steps` names, as its job does, started in `started_in`.
fs::path make_run(const fs::path& run, const std::string& steps, const fs::path& started_in) {
  fs::create_directories(run);
  const JobConfig job = parse_job_config(
      "[job]\nkind = 'load'\noutput = 'r'\n[model]\npath = 'm'\n[checkpoint]\npath = '" + steps + "'\n",
      "job.toml");
  std::ofstream(run / kJobCopyFile) << job_copy_text(job, started_in);
  return run;
}

std::int64_t step_at(const fs::path& path, std::int64_t which = kNewestStep) {
  const auto found = find_step(path, which, ExitCode::kUsage);
  return found ? found->step.step : 0;
}

TEST(StepSource, finds_the_steps_of_a_run_in_it_or_where_its_job_says) {
  const test::TemporaryDirectory directory;
  const fs::path start = directory / "start", disk = directory / "disk";
  make_saved_step(make_run(directory / "inside", "", start) / "checkpoints", {.step = 1});
  make_saved_step(disk, {.step = 2});
  make_saved_step(start / "steps", {.step = 3});
  EXPECT_EQ(step_at(directory / "inside"), 1);
  EXPECT_EQ(step_at(make_run(directory / "absolute", disk.string(), start)), 2);
  EXPECT_EQ(step_at(make_run(directory / "relative", "steps", start)), 3);
  EXPECT_EQ(steps_of_run(directory / "relative"), start / "steps");
}

TEST(StepSource, does_not_take_other_steps_for_those_that_the_job_names) {
  const test::TemporaryDirectory directory;
  const fs::path run = make_run(directory / "run", "gone", directory / "start");
  make_saved_step(run / "checkpoints", {.step = 1});
  EXPECT_EQ(step_at(run), 0);
  test::expect_error(ExitCode::kBadData, {"no checkpoints", (directory / "start/gone").string()},
                     [&] { static_cast<void>(steps_at(run)); });
}

TEST(StepSource, takes_a_directory_of_steps_and_one_step) {
  const test::TemporaryDirectory directory;
  for (const std::int64_t step : {10, 20}) make_saved_step(directory.path(), {.step = step});
  EXPECT_EQ(step_at(directory.path()), 20);
  EXPECT_EQ(step_at(directory.path(), 10), 10);
  EXPECT_EQ(step_at(directory / step_name(10)), 10);
  EXPECT_EQ(steps_at(directory.path()).size(), 2);
  EXPECT_EQ(steps_at(directory / step_name(10)).size(), 1);
  for (const fs::path& path : {directory.path(), directory / step_name(20)})
    test::expect_error(ExitCode::kUsage, {"no checkpoint of step 7"},
                       [&] { static_cast<void>(step_at(path, 7)); });
}

TEST(StepSource, the_best_step_is_that_of_the_newest_whole_one) {
  const test::TemporaryDirectory directory;
  test::expect_error(ExitCode::kBadConfig, {"no best checkpoint", "10"}, [&] {
    make_saved_step(directory.path(), {.step = 10});
    static_cast<void>(find_step(directory.path(), kBestStep, ExitCode::kBadConfig));
  });
  make_saved_step(directory.path(), {.step = 20, .best = {10, 4.5}});
  fs::create_directory(directory / step_name(30));
  EXPECT_EQ(step_at(directory.path(), kBestStep), 10);
  EXPECT_EQ(best_step(list_steps(directory.path())).loss, 4.5);
  make_saved_step(directory.path(), {.step = 40, .best = {40, 4}});
  EXPECT_EQ(step_at(directory.path(), kBestStep), 40);
  make_saved_step(directory.path(), {.step = 50, .best = {45, 3}});
  test::expect_error(ExitCode::kUsage, {"no checkpoint of step 45,", "best"},
                     [&] { static_cast<void>(step_at(directory.path(), kBestStep)); });
}

TEST(StepSource, a_step_of_an_earlier_version_learns_where_its_run_was_started) {
  const test::TemporaryDirectory directory;
  const fs::path run = make_run(directory / "run", "", "/home/me");
  make_saved_step(run / "checkpoints", {.step = 1, .job = {{"model.path", "\"m\""}}});
  EXPECT_EQ(find_step(run, kNewestStep, ExitCode::kUsage)->step.path("model.path"), "/home/me/m");
}

}  // namespace
}  // namespace sluice
