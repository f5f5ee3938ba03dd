#include "weights/weight_files.hpp"

#include "weights/tiny_model.hpp"

#include <gmock/gmock.h>

namespace sluice {
namespace {

namespace fs = std::filesystem;

SafetensorsEntry vector_of(const std::string& name, std::int64_t elements) {
  return {name, DType::kFloat32, {elements}, 0, 0};
}

TEST(WeightFiles, cuts_before_the_tensor_that_would_pass_the_limit) {
  const auto files =
      cut_into_files({vector_of("a", 10), vector_of("b", 15), vector_of("c", 1), vector_of("d", 99)}, 100);
  ASSERT_EQ(files.size(), 3U);
  EXPECT_EQ(files[0].tensors.size(), 2U);
  EXPECT_EQ(files[1].name, "model-00002-of-00003.safetensors");
  EXPECT_EQ(files[2].tensors.front().name, "d");
  EXPECT_EQ(files[2].bytes - files[2].header_bytes, 99 * 4);
}

TEST(WeightFiles, headers_say_where_the_tensors_are) {
  const WeightFile file = cut_into_files({vector_of("a", 3), vector_of("b", 5)}, 1000).front();
  const std::string header = file.header();
  EXPECT_EQ(static_cast<std::int64_t>(header.size()), file.header_bytes);
  const SafetensorsHeader parsed = parse_safetensors_header(header.substr(8), file.bytes, "f");
  EXPECT_EQ(parsed.entries[1].begin, file.tensors[1].begin);
  EXPECT_EQ(parsed.metadata.at("format"), "pt");
}

TEST(WeightFiles, a_single_file_has_no_index) {
  const test::TemporaryDirectory directory;
  write_weight_index(directory.path(), cut_into_files({vector_of("a", 3)}, 1000));
  EXPECT_TRUE(fs::is_empty(directory.path()));
}

TEST(WeightFiles, copies_of_any_length_are_equal) {
  const test::TemporaryDirectory from;
  const test::TemporaryDirectory to;
  const std::string text(2'500'000, 'x');
  copy_files(std::vector{from.write("tokenizer.json", text), from.write("empty", "")}, to.path());
  EXPECT_EQ(fs::file_size(to / "tokenizer.json"), text.size());
  EXPECT_EQ(read_text_file(to / "tokenizer.json", 3'000'000), text);
  EXPECT_TRUE(fs::is_empty(to / "empty"));
}

TEST(WeightFiles, a_config_beside_plain_weights_names_no_quantisation) {
  const test::TemporaryDirectory from;
  const test::TemporaryDirectory to;
  copy_files(std::vector{from.write("config.json", R"({"z": 1, "quantization_config": {"a": 2}, "a": 3})")},
             to.path());
  EXPECT_EQ(read_text_file(to / "config.json", 1000), "{\n  \"z\": 1,\n  \"a\": 3\n}\n");
}

TEST(WeightFiles, finds_the_companions_of_a_model_and_nothing_else) {
  const test::TemporaryDirectory directory;
  for (const char* name : {"config.json", "preprocessor_config.json", "README.md", "model.safetensors"})
    static_cast<void>(directory.write(name, "x"));
  EXPECT_THAT(
      companion_files(directory.path()),
      testing::UnorderedElementsAre(directory / "config.json", directory / "preprocessor_config.json"));
}

}  // namespace
}  // namespace sluice
