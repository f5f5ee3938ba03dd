#include "model/model_directory.hpp"

#include "model/architecture.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <gmock/gmock.h>

namespace sluice {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class ModelDirectory : public testing::Test {
 protected:
  void expect_refusal(const fs::path& path, const std::vector<std::string>& parts) const {
    test::expect_error(ExitCode::kBadData, parts,
                       [&] { static_cast<void>(describe_model(path, DType::kFloat32)); });
  }

  test::TemporaryDirectory directory_;
};

TEST_F(ModelDirectory, an_adapter_is_answered_as_that_also_in_a_folder_of_its_name) {
  fs::create_directories(directory_ / "out/mine");
  static_cast<void>(directory_.write("out/mine/adapter_config.json",
                                     R"({"base_model_name_or_path": "Qwen/Qwen3-30B-A3B"})"));
  for (const fs::path& path : {directory_ / "out/mine", directory_ / "out"})
    expect_refusal(path, {"out/mine", "adapter of Qwen/Qwen3-30B-A3B", "model.adapter", "lora.start"});
  static_cast<void>(directory_.write("out/mine/adapter_config.json", "{"));
  expect_refusal(directory_ / "out/mine", {"holds an adapter,"});
}

TEST_F(ModelDirectory, a_gguf_file_is_answered_as_that_alone_and_in_a_folder) {
  const fs::path named = directory_.write("a.GGUF", "x"), unnamed = directory_.write("model", "GGUF\3");
  for (const fs::path& path : {named, unnamed, directory_.path()}) expect_refusal(path, {"GGUF"});
  fs::remove(named);
  EXPECT_EQ(why_no_model(directory_.path()), "");
  expect_refusal(directory_.write("model.safetensors", "x"), {"model.safetensors", "is a file", "directory"});
}

TEST_F(ModelDirectory, a_name_of_the_hub_is_answered_as_that) {
  for (const char* name :
       {"Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-30B-A3B/", "https://huggingface.co/Qwen/Qwen3-30B-A3B",
        "https://huggingface.co/Qwen/Qwen3-30B-A3B/tree/main", "hf://Qwen/Qwen3-30B-A3B"})
    EXPECT_THAT(why_no_model(name), AllOf(HasSubstr("hub"), HasSubstr("hf download Qwen/Qwen3-30B-A3B ")));
  EXPECT_THAT(why_no_model("gpt2-of-no-folder"), HasSubstr("hf download gpt2-of-no-folder "));
  for (const char* path :
       {"/none/at/all", "./Qwen/Qwen3", "../Qwen/Qwen3", "a/b/c", "~/Qwen", "models x/y", "-a/b"})
    EXPECT_EQ(why_no_model(path), "") << path;
}

TEST_F(ModelDirectory, a_folder_of_the_hubs_cache_is_answered_with_the_model_in_it) {
  const fs::path snapshot = directory_ / "models--Qwen--Qwen3/snapshots/0123abc";
  fs::create_directories(snapshot);
  static_cast<void>(directory_.write("models--Qwen--Qwen3/snapshots/0123abc/config.json", "{}"));
  expect_refusal(directory_ / "models--Qwen--Qwen3", {"cache", snapshot.string()});
}

}  // namespace
}  // namespace sluice
