#include "job/answers/prompts.hpp"

#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

namespace sluice {
namespace {

using test::expect_error;
using test::TemporaryDirectory;

/// The end tokens of a model with such a config.json, and perhaps a generation_config.json.
std::vector<std::int64_t> ends_of(const std::string& config, const std::string& generation = "") {
  const TemporaryDirectory directory;
  static_cast<void>(directory.write("config.json", config));
  if (!generation.empty()) static_cast<void>(directory.write("generation_config.json", generation));
  return read_end_tokens(directory.path());
}

TEST(EndTokens, those_of_generation_config_count_before_those_of_config) {
  EXPECT_THAT(ends_of(R"({"eos_token_id": 3})"), testing::ElementsAre(3));
  EXPECT_THAT(ends_of(R"({"eos_token_id": 3})", R"({"eos_token_id": [4, 5]})"), testing::ElementsAre(4, 5));
  EXPECT_THAT(ends_of(R"({"eos_token_id": 3})", R"({"eos_token_id": null})"), testing::ElementsAre(3));
  EXPECT_THAT(ends_of("{}"), testing::IsEmpty());
}

TEST(EndTokens, null_beside_a_text_model_that_names_one_is_absent) {
  EXPECT_THAT(ends_of(R"({"eos_token_id": null, "text_config": {"eos_token_id": 7}})"),
              testing::ElementsAre(7));
  EXPECT_THAT(ends_of(R"({"eos_token_id": 3, "text_config": {"eos_token_id": 7}})"), testing::ElementsAre(3));
  EXPECT_THAT(ends_of(R"({"eos_token_id": null, "text_config": {"eos_token_id": null}})"),
              testing::IsEmpty());
}

TEST(EndTokens, numbers_without_a_value_harm_only_where_they_are_read) {
  EXPECT_THAT(ends_of(R"({"eos_token_id": 3, "x": NaN})", R"({"temperature": Infinity})"),
              testing::ElementsAre(3));
  expect_error(ExitCode::kBadData, {"generation_config.json", "eos_token_id", "NaN"},
               [] { ends_of(R"({"eos_token_id": 3})", R"({"eos_token_id": NaN})"); });
  expect_error(ExitCode::kBadData, {"config.json", "eos_token_id", "\"</s>\""},
               [] { ends_of(R"({"eos_token_id": "</s>"})"); });
}

TEST(Prompts, a_token_beyond_the_vocabulary_is_named_with_its_file_and_line) {
  const TemporaryDirectory directory;
  const std::filesystem::path file =
      directory.write("prompts.jsonl", "{\"tokens\": [1]}\n\n{\"id\": \"b\", \"tokens\": [1, 99]}\n");
  ModelConfig model;
  model.vocab_size = 50;
  expect_error(ExitCode::kBadData, {"prompts.jsonl:3", "\"b\"", "99", "49"},
               [&] { require_answerable(read_prompts(file), model, 100); });
  expect_error(ExitCode::kBadData, {"prompts.jsonl:3", "2 tokens"}, [&] {
    model.vocab_size = 100;
    require_answerable(read_prompts(file), model, 2);
  });
  expect_error(ExitCode::kBadData, {"prompt 0 "}, [&] {
    require_answerable({{"0", "", {100}}}, model, 100);
  });
}

}  // namespace
}  // namespace sluice
