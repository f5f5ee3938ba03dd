#include "checkpoint/saved_step.hpp"

#include "base/error.hpp"

#include <gmock/gmock.h>

#include <string>

namespace sluice {
namespace {

using testing::HasSubstr;

SavedStep some_step() {
  return {.step = 100,
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
  EXPECT_THAT(refusal(changed("\"format\":1", "\"format\":2")),
              HasSubstr("its format is 2, and this version reads 1"));
  EXPECT_THAT(refusal(changed("\"step\":100", "\"step\":-1")), HasSubstr("\"step\" is -1"));
  EXPECT_THAT(refusal(changed("\"step\":100", "\"step\":1e3")), HasSubstr("\"step\" is 1000"));
  EXPECT_THAT(refusal(changed("\"world_size\":3", "\"world_size\":0")), HasSubstr("\"world_size\""));
  EXPECT_THAT(refusal(changed("\"saved\"", "\"solved\"")), HasSubstr("\"saved\" is missing"));
  for (const char* name : {"../a", "/a", "a/../b", "a/", "."})
    EXPECT_THAT(refusal(changed("rank-00000.safetensors", name)), HasSubstr("is no name of a file")) << name;
  EXPECT_THAT(refusal(changed("\"BF16\"", "\"B16\"")), HasSubstr("there is no dtype B16"));
  EXPECT_THAT(refusal(changed("[4,24]", "[4,25]")),
              HasSubstr("weights of a.weight does not lie in its file"));
  EXPECT_THAT(refusal(changed("[4,24]", "[24,4]")), HasSubstr("does not lie in its file"));
  EXPECT_THAT(refusal(changed("[4,24]", "[4,9223372036854775807]")), HasSubstr("does not lie in its file"));
  EXPECT_THAT(refusal(changed("[4,24]", "[4]")), HasSubstr("\"numbers\" are not two"));
  EXPECT_THAT(refusal(changed("\"bytes\":100", "\"bytes\":100000000")),
              HasSubstr("another number of blocks"));
}

}  // namespace
}  // namespace sluice
