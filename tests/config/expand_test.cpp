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
    ::setenv("SLUICE_TEST_MODELS", "/models", 1);
    ::unsetenv("SLUICE_TEST_UNSET");
  }
};

TEST_F(ExpandPath, puts_variables_and_the_home_directory_in) {
  EXPECT_EQ(expand_path("runs/${SLUICE_TEST_TASK}/a${SLUICE_TEST_TASK}").text, "runs/7/a7");
  EXPECT_EQ(expand_path("~").text, "/home/ann");
  EXPECT_EQ(expand_path("~/runs").text, "/home/ann/runs");
}

TEST_F(ExpandPath, leaves_everything_else_alone) {
  for (const char* text : {"", "runs/a", "$SLUICE_TEST_TASK", "a~/b", "~ann/b", "a$/{b}"}) {
    EXPECT_EQ(expand_path(text).text, text);
    EXPECT_EQ(expand_path(text).problem, "");
  }
}

TEST_F(ExpandPath, says_which_variable_is_missing_or_what_is_wrong) {
  EXPECT_THAT(expand_path("a/${SLUICE_TEST_UNSET}").problem, HasSubstr("no variable SLUICE_TEST_UNSET"));
  EXPECT_THAT(expand_path("a/${SLUICE_TEST_NONE}").problem, HasSubstr("no variable SLUICE_TEST_NONE"));
  EXPECT_EQ(expand_path("a/${SLUICE_TEST").problem, "${ has no } behind it");
  EXPECT_EQ(expand_path("${}").problem, "${} names no variable");
}

TEST_F(ExpandPath, refuses_values_that_would_be_expanded_again) {
  ::setenv("SLUICE_TEST_TASK", "${HOME}", 1);
  EXPECT_THAT(expand_path("${SLUICE_TEST_TASK}").problem, HasSubstr("which is not expanded"));
  ::setenv("SLUICE_TEST_TASK", "~/a", 1);
  EXPECT_THAT(expand_path("${SLUICE_TEST_TASK}").problem, HasSubstr("which is not expanded"));
}

TEST_F(ExpandPath, leaves_what_names_no_variable_in_other_texts) {
  for (const char* text : {"~/a", "${", "${ x }", "${1}", "a ${b", "${}"}) {
    EXPECT_EQ(expand_variables(text).text, text);
    EXPECT_EQ(expand_variables(text).problem, "");
  }
  EXPECT_EQ(expand_variables("a${SLUICE_TEST_TASK}${").text, "a7${");
  ::setenv("SLUICE_TEST_TASK", "{HOME}", 1);
  EXPECT_THAT(expand_variables("$${SLUICE_TEST_TASK}").problem, HasSubstr("which is not expanded"));
}

/// The least job with these changes, and what its own copy gives.
JobConfig job_with(const std::vector<std::string>& changes) {
  JobConfig config = parse_job_config(test::kMinJob, "job.toml", changes);
  EXPECT_EQ(to_toml(parse_job_config(to_toml(config), "copy.toml")), to_toml(config));
  return config;
}

TEST_F(ExpandPath, holds_for_every_value_of_a_job) {
  ::setenv("SLUICE_TEST_RATE", "3e-4", 1);
  ::setenv("SLUICE_TEST_ORDER", "sequential", 1);
  ::setenv("SLUICE_TEST_FLAG", "true", 1);
  const JobConfig config =
      job_with({"model.path=~/m${SLUICE_TEST_TASK}", "data.seed=${SLUICE_TEST_TASK}",
                "data.order=${SLUICE_TEST_ORDER}", "optimizer.learning_rate=${SLUICE_TEST_RATE}",
                "train.steps=1${SLUICE_TEST_TASK}0", "job.overwrite=${SLUICE_TEST_FLAG}",
                "load.chunk=${SLUICE_TEST_TASK}MiB", "optimizer.betas=[0.${SLUICE_TEST_TASK}, 0.95]",
                "generate.stop=[\"${SLUICE_TEST_TASK}\", \"~/\"]"});
  EXPECT_EQ(config.model.path, "/home/ann/m7");
  EXPECT_EQ(config.data.seed, 7);
  EXPECT_EQ(config.data.order, DataOrder::kSequential);
  EXPECT_EQ(config.optimizer.learning_rate, 3e-4);
  EXPECT_EQ(config.train.steps, 170);
  EXPECT_TRUE(config.job.overwrite);
  EXPECT_EQ(config.load.chunk_bytes, 7 << 20);
  EXPECT_EQ(config.optimizer.betas[0], 0.7);
  EXPECT_EQ(config.generate.stop, (std::vector<std::string>{"7", "~/"}));
}

TEST_F(ExpandPath, holds_in_the_file_too_also_in_tables_of_a_list) {
  const JobConfig config = parse_job_config(std::string(test::kMinJob) +
                                                "[optimizer]\nlearning_rate = \"${SLUICE_TEST_TASK}e-5\"\n"
                                                "[[data.source]]\ntokens = \"${SLUICE_TEST_TASK}.h5\"\n"
                                                "weight = \"${SLUICE_TEST_TASK}\"\n",
                                            "job.toml", std::vector<std::string>{"data.tokens=\"\""});
  EXPECT_EQ(config.optimizer.learning_rate, 7e-5);
  ASSERT_EQ(config.data.source.size(), 1U);
  EXPECT_EQ(config.data.source[0].tokens, "7.h5");
  EXPECT_EQ(config.data.source[0].weight, 7);
}

TEST_F(ExpandPath, a_value_that_its_key_does_not_take_is_told_as_written_and_expanded) {
  for (const auto& [change, problem] : std::vector<std::pair<std::string, std::string>>{
           {"data.tokens=${SLUICE_TEST_UNSET}/t.h5",
            "data.tokens: found \"${SLUICE_TEST_UNSET}/t.h5\", but the environment has no variable "
            "SLUICE_TEST_UNSET"},
           {"data.seed=${SLUICE_TEST_UNSET}", "but the environment has no variable SLUICE_TEST_UNSET"},
           {"data.seed=-${SLUICE_TEST_TASK}", "found \"-${SLUICE_TEST_TASK}\", which is \"-7\", expected"},
           {"data.order=${SLUICE_TEST_TASK}",
            "data.order: found \"${SLUICE_TEST_TASK}\", which is \"7\", expected"}}) {
    try {
      static_cast<void>(parse_job_config(test::kMinJob, "job.toml", std::vector{change}));
      ADD_FAILURE() << change;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadConfig);
      EXPECT_THAT(error.what(), HasSubstr(problem));
    }
  }
}

TEST_F(ExpandPath, a_job_knows_the_variables_that_its_values_and_overrides_have) {
  const std::vector<std::string> overrides{"model.path=~/m", "data.seed=${SLUICE_TEST_TASK}"};
  const JobConfig config = parse_job_config(
      "[job]\nkind = \"load\"\noutput = \"runs/${SLUICE_TEST_TASK}/${SLUICE_TEST_TASK}\"\n"
      "[model]\npath = \"${SLUICE_TEST_MODELS}/a\"\n",
      "job.toml", overrides);
  EXPECT_EQ(config.variables, (std::set<std::string>{"HOME", "SLUICE_TEST_MODELS", "SLUICE_TEST_TASK"}));
  EXPECT_TRUE(parse_job_config(test::kMinJob, "none").variables.empty());
}

}  // namespace
}  // namespace sluice
