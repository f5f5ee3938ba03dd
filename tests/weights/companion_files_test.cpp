#include "weights/companion_files.hpp"

#include "io/file.hpp"
#include "support/temporary_directory.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

/// A directory with files of these names.
void fill(const test::TemporaryDirectory& directory, const std::vector<const char*>& names) {
  for (const char* name : names) {
    fs::create_directories((directory / name).parent_path());
    static_cast<void>(directory.write(name, name));
  }
}

std::vector<std::string> names_of(const Companions& companions) {
  std::vector<std::string> names;
  for (const CompanionFile& file : companions.files) names.push_back(file.name.string());
  return names;
}

TEST(CompanionFiles, are_what_lies_beside_the_weights_and_templates_in_a_folder) {
  const test::TemporaryDirectory directory;
  fill(directory, {"config.json", "LICENSE", "modeling_own.py", "tokenizer.model", "chat_template.jinja",
                   "additional_chat_templates/rag.jinja", "additional_chat_templates/tool_use.jinja",
                   "additional_chat_templates/notes.txt", "model-00001-of-00002.safetensors",
                   "model.safetensors.index.json", "pytorch_model.bin.index.json", ".gitattributes",
                   ".cache/x.jinja", "manifest.json", "config.json.tmp"});
  const Companions found = companion_files(directory.path());
  EXPECT_THAT(names_of(found), ElementsAre("LICENSE", "additional_chat_templates/rag.jinja",
                                           "additional_chat_templates/tool_use.jinja", "chat_template.jinja",
                                           "config.json", "modeling_own.py", "tokenizer.model"));
  EXPECT_TRUE(found.left_behind.empty());
}

TEST(CompanionFiles, weights_of_other_formats_and_other_folders_are_named_as_left_behind) {
  const test::TemporaryDirectory directory;
  fill(directory, {"config.json", "pytorch_model.bin", "x.Q4.gguf", "adapter_config.json",
                   "original/params.json", "onnx/model.onnx"});
  fs::resize_file(directory.write("huge.json", ""), (std::uintmax_t{64} << 20) + 1);
  const Companions found = companion_files(directory.path());
  EXPECT_THAT(names_of(found), ElementsAre("config.json"));
  EXPECT_THAT(found.left_behind, ElementsAre("adapter_config.json", "huge.json", "onnx/", "original/",
                                             "pytorch_model.bin", "x.Q4.gguf"));
  testing::internal::CaptureStderr();
  log_left_behind(found, directory.path());
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(testing::HasSubstr("x.Q4.gguf"), testing::HasSubstr("original/")));
}

TEST(CompanionFiles, copies_of_any_length_are_equal_and_lie_in_the_same_folders) {
  const test::TemporaryDirectory from;
  const test::TemporaryDirectory to;
  const std::string text(2'500'000, 'x');
  fill(from, {"templates/a.jinja"});
  static_cast<void>(from.write("tokenizer.json", text));
  static_cast<void>(from.write("empty", ""));
  copy_files(companion_files(from.path()).files, to.path());
  EXPECT_EQ(read_text_file(to / "tokenizer.json", 3'000'000), text);
  EXPECT_TRUE(fs::is_empty(to / "empty"));
  EXPECT_EQ(read_text_file(to / "templates/a.jinja", 100), "templates/a.jinja");
}

TEST(CompanionFiles, a_config_beside_plain_weights_names_no_quantisation) {
  const test::TemporaryDirectory from;
  const test::TemporaryDirectory to;
  static_cast<void>(from.write("config.json", R"({"z": 1, "quantization_config": {"a": 2}, "a": 3})"));
  copy_files(companion_files(from.path()).files, to.path());
  EXPECT_EQ(read_text_file(to / "config.json", 1000), "{\n  \"z\": 1,\n  \"a\": 3\n}\n");
}

TEST(CompanionFiles, beside_plain_weights_lack_the_files_that_name_quantised_ones) {
  const test::TemporaryDirectory directory;
  fill(directory, {"config.json", "hf_quant_config.json", "quant_cfg.json", "quant_config.json",
                   "quantization_config.json", "quantize_config.json"});
  const Companions plain = companion_files(directory.path());
  EXPECT_THAT(names_of(plain), ElementsAre("config.json"));
  EXPECT_EQ(plain.left_behind.size(), 5U);
  const Companions as_config_says = companion_files(directory.path(), WeightStorage::kAsConfigSays);
  EXPECT_EQ(as_config_says.files.size(), 6U);
  EXPECT_TRUE(as_config_says.left_behind.empty());
}

TEST(CompanionFiles, a_config_beside_plain_weights_names_no_quantisation_under_any_key_of_any_part) {
  const test::TemporaryDirectory from;
  const test::TemporaryDirectory plain;
  const test::TemporaryDirectory quantised;
  const std::string config =
      R"({"compression_config": {"a": 2}, "text_config": {"quantization_config": {}, "b": 1}, "c": [{}]})";
  static_cast<void>(from.write("config.json", config));
  copy_files(companion_files(from.path()).files, plain.path());
  EXPECT_EQ(read_text_file(plain / "config.json", 1000),
            "{\n  \"text_config\": {\n    \"b\": 1\n  },\n  \"c\": [\n    {}\n  ]\n}\n");
  copy_files(companion_files(from.path(), WeightStorage::kAsConfigSays).files, quantised.path());
  EXPECT_EQ(read_text_file(quantised / "config.json", 1000), config);
}

TEST(CompanionFiles, a_config_that_loses_its_quantisation_keeps_numbers_that_python_writes_by_name) {
  const test::TemporaryDirectory from;
  const test::TemporaryDirectory to;
  static_cast<void>(
      from.write("config.json", R"({"a": NaN, "quantization_config": {}, "b": [-Infinity, null, "NaN"]})"));
  copy_files(companion_files(from.path()).files, to.path());
  EXPECT_EQ(read_text_file(to / "config.json", 1000),
            "{\n  \"a\": NaN,\n  \"b\": [\n    -Infinity,\n    null,\n    \"NaN\"\n  ]\n}\n");
}

TEST(CompanionFiles, of_a_directory_that_is_missing_are_none) {
  EXPECT_TRUE(companion_files("/nonexistent/model").files.empty());
}

}  // namespace
}  // namespace sluice
