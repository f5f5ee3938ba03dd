#include "checkpoint/saved_step.hpp"

#include "base/error.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <limits>
#include <string>

namespace sluice {
namespace {

using testing::HasSubstr;

SavedStep some_step() {
  return {.step = 100,
          .attempt = 2,
          .saved = "2026-11-21T15:04:05Z",
          .version = "1",
          .structure_hash = "abc",
          .world_size = 3,
          .job = {{"train.steps", "100"}},
          .sequences = 41,
          .data_digest = "d",
          .files = {{"rank-00000.safetensors",
                     100,
                     {{"a.weight", "weights", DType::kBFloat16, {4, 24}, 60}},
                     {{1, 2}}}}};
}

/// A manifest with `from` replaced by `to` in its content, and the digest of that.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = to_manifest(some_step());
  text.replace(text.find(from), from.size(), to);
  const std::size_t begin = std::string(R"({"content":)").size(), end = text.find(R"(,"digest")");
  const std::string content = text.substr(begin, end - begin);
  return fmt::format(R"({{"content":{},"digest":"{}"}}{})", content, digest_of(content).hex(), "\n");
}

std::string refusal(const std::string& text) {
  try {
    static_cast<void>(parse_manifest(text, "manifest.json"));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadData);
    return error.what();
  }
  return "accepted";
}

TEST(SavedStep, comes_back_from_its_manifest) {
  const SavedStep step = parse_manifest(to_manifest(some_step()), "manifest.json");
  EXPECT_EQ(to_manifest(step), to_manifest(some_step()));
  EXPECT_EQ(step.key("train.steps"), "100");
  EXPECT_EQ(step.files.front().entries.front().numbers.end, 24);
  EXPECT_EQ(step.bytes(), 100);
  EXPECT_EQ(step.attempt, 2);
  EXPECT_EQ(step.best.step, 0);
  EXPECT_TRUE(step.packing.empty());
  SavedStep evaluated = some_step();
  evaluated.best = {40, 2.5};
  evaluated.packing = {{3, 17}, {0, 2}};
  const SavedStep again = parse_manifest(to_manifest(evaluated), "manifest.json");
  EXPECT_EQ(again.best.step, 40);
  EXPECT_EQ(again.best.loss, 2.5);
  EXPECT_EQ(again.packing, evaluated.packing);
  EXPECT_EQ(again.base_digest, "");
  evaluated.base_digest = "fc40";
  EXPECT_EQ(parse_manifest(to_manifest(evaluated), "manifest.json").base_digest, "fc40");
}

TEST(SavedStep, comes_back_with_its_adapters_and_the_directory_of_its_job) {
  SavedStep trained = some_step();
  trained.job = {{"lora.rank", "4"}, {"model.path", "\"models/m\""}, {"lora.start", "\"\""}};
  trained.started_in = "/home/me \xC3\xA4";
  trained.adapters.description = {{{"a.weight", 4, 0.1}, {"b.weight", 8, 2}}, 0.05};
  trained.adapters.style = {true, "model.language_model."};
  const SavedStep again = parse_manifest(to_manifest(trained), "manifest.json");
  EXPECT_TRUE(again.holds_adapters());
  EXPECT_EQ(again.adapters.description.tensors, trained.adapters.description.tensors);
  EXPECT_EQ(again.adapters.description.dropout, 0.05);
  EXPECT_TRUE(again.adapters.style.rslora);
  EXPECT_EQ(again.adapters.style.tree, "model.language_model.");
  EXPECT_EQ(again.path("model.path"), std::filesystem::path("/home/me \xC3\xA4/models/m"));
  EXPECT_EQ(again.path("lora.start"), "");
}

TEST(SavedStep, of_an_earlier_version_has_paths_and_adapters_as_its_job_writes_them) {
  SavedStep early = some_step();
  early.job = {{"lora.rank", "4"}, {"model.path", "\"models/\\\"m\\\"\""}};
  const SavedStep again = parse_manifest(to_manifest(early), "manifest.json");
  EXPECT_EQ(again.started_in, "");
  EXPECT_EQ(again.path("model.path"), "models/\"m\"");
  EXPECT_TRUE(again.holds_adapters());
  EXPECT_FALSE(some_step().holds_adapters());
  early.best = {40, 2.5};
  const HeldOutProgress held_out = parse_manifest(to_manifest(early), "manifest.json").held_out;
  EXPECT_EQ(held_out.lowest.step, 40) << "the best saved step, where no more is known";
  EXPECT_EQ(held_out.since, 0);
}

TEST(SavedStep, of_hosts_without_a_shared_file_system_says_where_each_file_was_written) {
  SavedStep step = some_step();
  EXPECT_THAT(to_manifest(step), HasSubstr("\"format\":1"));
  step.hosts = {"h1", "h2", "h3"};
  step.files.front().hosts = {1, 2};
  EXPECT_THAT(to_manifest(step), HasSubstr("\"format\":2"));
  const SavedStep back = parse_manifest(to_manifest(step), "manifest.json");
  EXPECT_EQ(back.hosts, step.hosts);
  EXPECT_EQ(back.hosts_text(back.files.front()), "h2 and h3");
  step.files.front().hosts = {3};
  EXPECT_THAT(refusal(to_manifest(step)), HasSubstr("host 3 of 3"));
}

TEST(HeldOutProgress, counts_evaluations_since_the_lowest_and_goes_on_from_a_manifest) {
  HeldOutProgress progress;
  EXPECT_TRUE(progress.add(2, 5));
  EXPECT_TRUE(progress.add(4, 4));
  EXPECT_FALSE(progress.add(6, 4)) << "no lower one";
  EXPECT_FALSE(progress.add(8, std::numeric_limits<double>::infinity()));
  EXPECT_EQ(progress.since, 2);
  SavedStep step = some_step();
  step.held_out = progress;
  progress = parse_manifest(to_manifest(step), "manifest.json").held_out;
  EXPECT_EQ(progress.lowest.step, 4);
  EXPECT_EQ(progress.lowest.loss, 4);
  EXPECT_FALSE(progress.add(10, 4.5));
  EXPECT_EQ(progress.since, 3);
  EXPECT_TRUE(progress.add(12, 3));
  EXPECT_EQ(progress.since, 0);
}

TEST(HeldOutProgress, a_first_loss_that_is_not_finite_is_not_the_lowest) {
  HeldOutProgress progress;
  EXPECT_FALSE(progress.add(2, std::numeric_limits<double>::infinity()));
  EXPECT_EQ(progress.since, 1);
  EXPECT_TRUE(progress.add(4, 5));
}

TEST(SavedStep, notices_every_changed_byte_of_its_manifest) {
  const std::string text = to_manifest(some_step());
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string other = text;
    other[at] = static_cast<char>(other[at] ^ 1);
    EXPECT_NE(refusal(other), "accepted") << at;
    EXPECT_NE(refusal(text.substr(0, at)), "accepted") << at;
  }
}

TEST(SavedStep, refuses_manifests_that_make_no_sense) {
  EXPECT_THAT(refusal(changed("\"format\":1", "\"format\":3")),
              testing::AllOf(HasSubstr("format is 3"), HasSubstr("reads 1 and 2")));
  EXPECT_THAT(refusal(changed("\"format\":1", "\"format\":2")), HasSubstr("\"hosts\" is missing"));
  EXPECT_THAT(refusal(changed("\"step\":100", "\"step\":-1")), HasSubstr("\"step\" is -1"));
  EXPECT_THAT(refusal(changed("\"step\":100", "\"step\":1e3")), HasSubstr("\"step\" is 1000"));
  EXPECT_THAT(refusal(changed("\"world_size\":3", "\"world_size\":0")), HasSubstr("\"world_size\""));
  EXPECT_THAT(refusal(changed("\"saved\"", "\"solved\"")), HasSubstr("\"saved\" is missing"));
  for (const char* name : {"../a", "/a", "a/../b", "a/", "."})
    EXPECT_THAT(refusal(changed("rank-00000.safetensors", name)),
                HasSubstr(fmt::format("{} is not the name", name)))
        << name;
  EXPECT_THAT(refusal(changed("\"BF16\"", "\"B16\"")), HasSubstr("there is no dtype B16"));
  EXPECT_THAT(refusal(changed("[4,24]", "[4,25]")), HasSubstr("weights of a.weight does not"));
  EXPECT_THAT(refusal(changed("[4,24]", "[24,4]")), HasSubstr("weights of a.weight does not"));
  EXPECT_THAT(refusal(changed("[4,24]", "[4,9223372036854775807]")),
              HasSubstr("weights of a.weight does not"));
  EXPECT_THAT(refusal(changed("[4,24]", "[4]")), HasSubstr("\"numbers\" are not two"));
  EXPECT_THAT(refusal(changed("\"bytes\":100", "\"bytes\":100000000")),
              HasSubstr("another number of blocks"));
}

}  // namespace
}  // namespace sluice
