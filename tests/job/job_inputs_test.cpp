#include "job/prepare/job_inputs.hpp"

#include "checkpoint/step_directory.hpp"
#include "process/host_name.hpp"
#include "support/temporary_directory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

std::vector<std::filesystem::path> paths(const std::vector<JobInput>& inputs) {
  std::vector<std::filesystem::path> found;
  for (const JobInput& input : inputs) found.push_back(input.path);
  return found;
}

TEST(JobInputs, are_job_file_tokens_and_what_lies_beside_the_weights) {
  const test::TemporaryDirectory directory;
  std::filesystem::create_directory(directory / "model");
  const auto job = directory.write("job.toml", "[model]"),
             config = directory.write("model/config.json", "{}"), tokens = directory.write("tokens.h5", "t"),
             held_out = directory.write("held_out.h5", "h");
  static_cast<void>(directory.write("model/model.safetensors", "w"));
  JobConfig settings;
  settings.model.path = directory / "model";
  settings.data.tokens = tokens;
  settings.evaluate.tokens = {held_out, directory / "none.h5"};  // what is not there the ranks name
  EXPECT_THAT(paths(job_inputs(job, settings)), testing::UnorderedElementsAre(job, config, tokens, held_out));
}

TEST(JobInputs, are_those_of_all_sources) {
  const test::TemporaryDirectory directory;
  const auto job = directory.write("job.toml", ""), one = directory.write("one.h5", ""),
             two = directory.write("two.h5", "");
  JobConfig settings;
  settings.data.source = {{.tokens = one}, {.tokens = two}};
  EXPECT_THAT(paths(job_inputs(job, settings)), testing::ElementsAre(job, one, two));
}

TEST(JobInputs, are_prompts_and_the_adapter_that_peft_saved) {
  const test::TemporaryDirectory directory;
  std::filesystem::create_directory(directory / "adapter");
  const auto prompts = directory.write("prompts.txt", "?"),
             config = directory.write("adapter/adapter_config.json", "{}"),
             weights = directory.write("adapter/adapter_model.safetensors", "w");
  static_cast<void>(directory.write("adapter/README.md", ""));
  JobConfig settings;
  settings.model.adapter = directory / "adapter";
  settings.generate.prompts = prompts;
  EXPECT_THAT(paths(job_inputs("", settings)), testing::UnorderedElementsAre(prompts, config, weights));
}

/// Adds a step to a run: a rank's file of three bytes, and config.json of two.
void add_step(const test::TemporaryDirectory& run, SavedStep step) {
  const std::string place = "checkpoints/" + step_name(step.step);
  std::filesystem::create_directories(run / place);
  SavedFile weights, companion;
  weights.name = run.write(place + "/rank-00000.safetensors", "www").filename();
  weights.bytes = 3;
  weights.blocks = {digest_of(std::string_view("www"))};
  weights.entries.push_back({"a", "weight", DType::kUInt8, {0, 3}, 0});
  companion.name = run.write(place + "/config.json", "{}").filename();
  companion.bytes = 2;
  companion.blocks = {digest_of(std::string_view("{}"))};
  step.files = {weights, companion};
  create_manifest(run / place, step).close();
}

SavedStep step_with_best(std::int64_t step, std::int64_t best) {
  SavedStep saved;
  saved.step = step;
  saved.best = {best, 1.5};
  return saved;
}

TEST(JobInputs, are_of_a_saved_step_its_manifest_and_companions_and_say_where_its_weights_lie) {
  const test::TemporaryDirectory run;
  add_step(run, step_with_best(7, 4));
  add_step(run, step_with_best(4, 4));
  JobConfig settings;
  settings.model.path = run.path();
  const std::vector<JobInput> inputs = job_inputs("", settings);
  const auto step = run / "checkpoints/step-00000007";
  EXPECT_THAT(paths(inputs), testing::ElementsAre(step / "config.json", step / "manifest.json"));
  EXPECT_TRUE(inputs.front().stays && inputs.back().stays);
  const SavedStep arrived = parse_manifest(inputs.back().content.value(), "manifest");
  EXPECT_EQ(arrived.hosts_text(arrived.files.front()), host_name());
  EXPECT_EQ(arrived.hosts_text(arrived.files.back()), "");
  settings.model.step = kBestStep;  // which the newest one tells
  EXPECT_EQ(job_inputs("", settings).size(), 4);
}

}  // namespace
}  // namespace sluice
