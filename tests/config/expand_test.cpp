#include "config/expand.hpp"

#include "base/error.hpp"
#include "config/job_config.hpp"
#include "config/least_job.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace sluice {
namespace {

using testing::HasSubstr;

class ExpandPath : public testing::Test {
 protected:
  ExpandPath() {
    ::setenv("HOME", "/home/ann", 1);
    ::setenv("SLUICE_TEST_TASK", "7", 1);
    ::setenv("SLUICE_TEST_NONE", "", 1);
    ::unsetenv("SLUICE_TEST_UNSET");
  }
};

TEST_F(ExpandPath, puts_variables_and_the_home_directory_in) {
  EXPECT_EQ(expand_path("runs/${SLUICE_TEST_TASK}/a${SLUICE_TEST_TASK}").path, "runs/7/a7");
  EXPECT_EQ(expand_path("~").path, "/home/ann");
  EXPECT_EQ(expand_path("~/runs").path, "/home/ann/runs");
}

TEST_F(ExpandPath, leaves_everything_else_alone) {
  for (const char* text : {"", "runs/a", "$SLUICE_TEST_TASK", "a~/b", "~ann/b", "a$/{b}"}) {
    EXPECT_EQ(expand_path(text).path, text);
    EXPECT_EQ(expand_path(text).problem, "");
  }
}

TEST_F(ExpandPath, says_which_variable_is_missing_or_what_is_wrong) {
  EXPECT_EQ(expand_path("a/${SLUICE_TEST_UNSET}").problem,
            "the environment has no variable SLUICE_TEST_UNSET");
  EXPECT_EQ(expand_path("a/${SLUICE_TEST_NONE}").problem, "the environment has no variable SLUICE_TEST_NONE");
  EXPECT_EQ(expand_path("a/${SLUICE_TEST").problem, "${ has no } behind it");
  EXPECT_EQ(expand_path("${}").problem, "${} names no variable");
}

TEST_F(ExpandPath, refuses_values_that_would_be_expanded_again) {
  ::setenv("SLUICE_TEST_TASK", "${HOME}", 1);
  EXPECT_THAT(expand_path("${SLUICE_TEST_TASK}").problem, HasSubstr("which is not expanded"));
  ::setenv("SLUICE_TEST_TASK", "~/a", 1);
  EXPECT_THAT(expand_path("${SLUICE_TEST_TASK}").problem, HasSubstr("which is not expanded"));
}

TEST_F(ExpandPath, holds_for_paths_of_a_job_and_for_nothing_else) {
  const JobConfig config = parse_job_config(test::kMinJob, "job.toml",
                                            std::vector<std::string>{"model.path=~/m${SLUICE_TEST_TASK}"});
  EXPECT_EQ(config.model.path, "/home/ann/m7");
  EXPECT_EQ(parse_job_config(to_toml(config), "copy.toml").model.path, "/home/ann/m7");
  for (
      const auto& [change, problem] : std::vector<std::pair<std::string, std::string>>{
          {"data.tokens=${SLUICE_TEST_UNSET}/t.h5",
           "data.tokens: found \"${SLUICE_TEST_UNSET}/t.h5\", but the environment has no variable SLUICE_TEST_UNSET"},
          {"data.order=${SLUICE_TEST_TASK}", "data.order: found \"${SLUICE_TEST_TASK}\", expected"}}) {
    try {
      static_cast<void>(parse_job_config(test::kMinJob, "job.toml", std::vector{change}));
      ADD_FAILURE() << change;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadConfig);
      EXPECT_THAT(error.what(), HasSubstr(problem));
    }
  }
}

}  // namespace
}  // namespace sluice
