#include "weights/checkpoint_index.hpp"

#include "weights/tiny_model.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fmt/format.h>

namespace sluice {
namespace {

using test::error_of;
using test::write_file;
using test::write_safetensors;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
namespace fs = std::filesystem;

constexpr const char* kFirst = "model-00001-of-00002.safetensors";
constexpr const char* kSecond = "model-00002-of-00002.safetensors";

class CheckpointIndexTest : public testing::Test {
 protected:
  const fs::path& dir() const { return directory_.path(); }
  void write_index(const std::string& weight_map, int total_size = 24) const {
    write_file(dir() / "model.safetensors.index.json",
               fmt::format("{{\"metadata\": {{\"total_size\": {}}}, \"weight_map\": {{{}}}}}", total_size,
                           weight_map));
  }
  /// a in the first file, b and c in the second.
  void write_whole() const {
    write_safetensors(dir() / kFirst, {{"a", {2}}});
    write_safetensors(dir() / kSecond, {{"b", {2, 3}}, {"c", {2}, DType::kFloat32}});
    write_index(fmt::format(R"("a": "{0}", "b": "{1}", "c": "{1}")", kFirst, kSecond));
  }
  std::string error() const {
    return error_of([&] { static_cast<void>(read_checkpoint_index(dir())); });
  }

 private:
  test::TemporaryDirectory directory_;
};

TEST_F(CheckpointIndexTest, reads_a_single_file) {
  write_safetensors(dir() / "model.safetensors", {{"a", {2, 3}}, {"b", {4}, DType::kFloat32}});
  const CheckpointIndex index = read_checkpoint_index(dir());
  ASSERT_EQ(index.entries.size(), 2u);
  EXPECT_EQ(index.entries[1].name, "b");
  EXPECT_EQ(index.entries[1].bytes, 16);
  EXPECT_EQ(index.entries[1].begin, index.entries[0].begin + 12);
  EXPECT_EQ(index.files[0].bytes, static_cast<std::int64_t>(fs::file_size(dir() / "model.safetensors")));
}

TEST_F(CheckpointIndexTest, reads_shards_and_travels_unchanged) {
  write_whole();
  const CheckpointIndex read = read_checkpoint_index(dir());
  const CheckpointIndex index = CheckpointIndex::from_bytes(read.to_bytes());
  ASSERT_EQ(index.entries.size(), 3u);
  EXPECT_EQ(index.files[1].name, kSecond);
  EXPECT_EQ(index.entries[2].file, 1);
  EXPECT_EQ(index.entries[2].dtype, DType::kFloat32);
  EXPECT_EQ(index.entries[1].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_TRUE(index.warnings.empty());
  EXPECT_EQ(index.to_bytes(), read.to_bytes());
}

TEST_F(CheckpointIndexTest, follows_links_as_in_a_hub_cache) {
  write_whole();
  fs::create_directory(dir() / "snapshot");
  fs::rename(dir() / kFirst, dir() / "blob");
  for (const char* name : {kSecond, "model.safetensors.index.json"})
    fs::rename(dir() / name, dir() / "snapshot" / name);
  fs::create_symlink("../blob", dir() / "snapshot" / kFirst);
  EXPECT_EQ(read_checkpoint_index(dir() / "snapshot").entries.size(), 3u);
}

TEST_F(CheckpointIndexTest, warns_of_a_wrong_total_size) {
  write_whole();
  write_index(fmt::format(R"("a": "{0}", "b": "{1}", "c": "{1}")", kFirst, kSecond), 25);
  const CheckpointIndex index = read_checkpoint_index(dir());
  ASSERT_EQ(index.warnings.size(), 1u);
  EXPECT_THAT(index.warnings[0], AllOf(HasSubstr("25"), HasSubstr("24")));
}

TEST_F(CheckpointIndexTest, lists_all_that_is_wrong_at_once) {
  write_safetensors(dir() / kFirst, {{"a", {2}}, {"b", {2}}, {"extra", {1}}});
  write_safetensors(dir() / kSecond, {{"b", {2}}, {"moved", {1}}});
  write_index(
      fmt::format(R"("a": "{0}", "b": "{1}", "gone": "{1}", "moved": "{0}", "c": "absent.safetensors")",
                  kFirst, kSecond));
  const std::string text = error();
  EXPECT_THAT(text, StartsWith("65: "));
  EXPECT_THAT(text, HasSubstr("absent.safetensors"));
  EXPECT_THAT(text, HasSubstr(fmt::format("tensor b is in two files: {} and {}", kFirst, kSecond)));
  EXPECT_THAT(text, HasSubstr(fmt::format("tensor extra is in {}, ", kFirst)));
  EXPECT_THAT(text, HasSubstr("tensor gone is missing"));
  EXPECT_THAT(text, HasSubstr(fmt::format("tensor moved is in {}", kSecond)));
  EXPECT_THAT(text, Not(HasSubstr("tensor c is missing"))) << "its file's absence says it";
}

TEST_F(CheckpointIndexTest, tells_of_tensors_that_no_file_holds_and_leaves_it_to_who_knows_the_model) {
  write_whole();
  write_index(
      fmt::format(R"("a": "./{0}", "b": "{1}", "c": "{1}", "mtp.norm.weight": "{0}")", kFirst, kSecond));
  const CheckpointIndex index = CheckpointIndex::from_bytes(read_checkpoint_index(dir()).to_bytes());
  EXPECT_EQ(index.entries.size(), 3u);
  ASSERT_EQ(index.absent.size(), 1u);
  EXPECT_EQ(index.absent[0].name, "mtp.norm.weight");
  EXPECT_EQ(index.absent[0].file, kFirst);
  EXPECT_THAT(index.warnings, testing::ElementsAre(HasSubstr("mtp.norm.weight")));
  EXPECT_NO_THROW(require_listed_tensors(index));
  write_index(fmt::format(R"("a": "{0}", "b": "{1}", "c": "{1}", "gone": "{0}")", kFirst, kSecond));
  EXPECT_THAT(error_of([&] { require_listed_tensors(read_checkpoint_index(dir())); }),
              AllOf(StartsWith("65: "), HasSubstr("tensor gone is missing"), HasSubstr(kFirst)));
}

TEST_F(CheckpointIndexTest, opens_nothing_when_a_file_name_is_unsafe) {
  write_whole();
  write_index(fmt::format(R"("a": "absent", "b": "../{}")", kSecond));
  EXPECT_THAT(error(),
              AllOf(StartsWith("65: "), HasSubstr("outside the model directory"), Not(HasSubstr("absent"))));
}

TEST_F(CheckpointIndexTest, refuses_shards_that_are_no_files) {
  write_index(R"("a": "fifo", "b": "folder")");
  ASSERT_EQ(::mkfifo((dir() / "fifo").c_str(), 0600), 0);
  fs::create_directory(dir() / "folder");
  EXPECT_THAT(error(), AllOf(StartsWith("65: "), HasSubstr("fifo"), HasSubstr("folder")));
}

TEST_F(CheckpointIndexTest, refuses_a_dangling_link) {
  fs::create_symlink("nowhere", dir() / "model.safetensors");
  EXPECT_THAT(error(), AllOf(StartsWith("65: "), HasSubstr("model.safetensors")));
}

TEST_F(CheckpointIndexTest, hints_at_conversion_when_there_are_only_pickles) {
  write_file(dir() / "pytorch_model.bin", "x");
  EXPECT_THAT(error(), AllOf(StartsWith("65: "), HasSubstr("pytorch_model.bin"), HasSubstr("Convert")));
}

TEST_F(CheckpointIndexTest, names_what_to_use_in_place_of_gguf) {
  write_file(dir() / "model.Q4_K_M.gguf", "GGUF");
  EXPECT_THAT(error(), AllOf(StartsWith("65: "), HasSubstr("model.Q4_K_M.gguf"),
                             HasSubstr("safetensors files"), HasSubstr("bfloat16, FP8, INT4")));
}

TEST_F(CheckpointIndexTest, refuses_directories_without_weights) {
  EXPECT_THAT(error(), AllOf(StartsWith("65: "), HasSubstr("neither model.safetensors")));
  EXPECT_THAT(error_of([&] { static_cast<void>(read_checkpoint_index(dir() / "none")); }),
              HasSubstr("no such directory"));
}

}  // namespace
}  // namespace sluice
