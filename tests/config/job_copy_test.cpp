#include "config/job_copy.hpp"

#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

constexpr const char* kJob = "[job]\nkind = 'load'\noutput = 'runs/a'\n[model]\npath = 'm'\n";

JobConfig some_job() { return parse_job_config(kJob, "job.toml"); }

TEST(JobCopy, comes_back_with_the_directory_that_the_job_was_started_in) {
  const test::TemporaryDirectory directory;
  for (const char* start : {"/home/me", "/a \"quoted\"\nplace\\", "/\xC3\xA4"}) {
    const auto file = directory.write("job.toml", job_copy_text(some_job(), start));
    EXPECT_TRUE(is_job_copy(file));
    const JobCopy copy = read_job_copy(file);
    EXPECT_EQ(copy.started_in, start);
    EXPECT_EQ(to_toml(copy.config), to_toml(some_job()));
  }
}

TEST(JobCopy, of_an_earlier_version_names_no_directory) {
  const test::TemporaryDirectory directory;
  const auto file =
      directory.write("job.toml", "# Written by sluice: the job with every key.\n" + to_toml(some_job()));
  EXPECT_TRUE(is_job_copy(file));
  EXPECT_EQ(read_job_copy(file).started_in, "");
}

TEST(JobCopy, is_no_job_file_of_a_user) {
  const test::TemporaryDirectory directory;
  EXPECT_FALSE(is_job_copy(directory.write("job.toml", kJob)));
  EXPECT_FALSE(is_job_copy(directory / "none.toml"));
}

TEST(JobCopy, resolves_paths_of_the_job) {
  EXPECT_EQ(from_start("/home/me", "steps"), "/home/me/steps");
  EXPECT_EQ(from_start("/home/me", "../steps"), "/home/steps");
  EXPECT_EQ(from_start("/home/me", "/disk/steps"), "/disk/steps");
  EXPECT_EQ(from_start("/home/me", ""), "");
  EXPECT_EQ(from_start("", "steps"), "steps");
}

}  // namespace
}  // namespace sluice
