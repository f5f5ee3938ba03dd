#include "job/launch/handover.hpp"

#include "job/launch/handed_file.hpp"
#include "support/temporary_directory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(FilesForAllHosts, are_job_file_tokens_and_what_lies_beside_the_weights) {
  const test::TemporaryDirectory directory;
  std::filesystem::create_directory(directory / "model");
  const auto job = directory.write("job.toml", "[model]"),
             config = directory.write("model/config.json", "{}"), tokens = directory.write("tokens.h5", "t"),
             held_out = directory.write("held_out.h5", "h"),
             weights = directory.write("model/model.safetensors", "w");
  JobConfig settings;
  settings.model.path = directory / "model";
  settings.data.tokens = tokens;
  settings.evaluate.tokens = {held_out, directory / "none.h5"};  // what is not there the ranks name
  EXPECT_THAT(files_for_all_hosts(job, settings),
              testing::UnorderedElementsAre(job, config, tokens, held_out));
}

TEST(FilesForAllHosts, are_those_of_all_sources) {
  const test::TemporaryDirectory directory;
  const auto job = directory.write("job.toml", ""), one = directory.write("one.h5", ""),
             two = directory.write("two.h5", "");
  JobConfig settings;
  settings.data.source = {{.tokens = one}, {.tokens = two}};
  EXPECT_THAT(files_for_all_hosts(job, settings), testing::ElementsAre(job, one, two));
}

TEST(HandedFile, travels_with_what_tells_whether_another_is_the_same) {
  const test::TemporaryDirectory directory;
  const HandedFile file = HandedFile::describe(directory.write("a", "content"));
  const HandedFile arrived = HandedFile::from_json(file.to_json());
  EXPECT_EQ(arrived.path, file.path);
  EXPECT_EQ(arrived.changed, file.changed);
  EXPECT_TRUE(arrived.has_same_content(file));
  EXPECT_FALSE(arrived.has_same_content(HandedFile::describe(directory.write("b", "CONTENT"))));
}

}  // namespace
}  // namespace sluice
