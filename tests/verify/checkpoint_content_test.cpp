#include "verify/checkpoint_content.hpp"

#include "export/synthesize.hpp"
#include "io/file.hpp"
#include "io/safetensors.hpp"
#include "support/expect_error.hpp"
#include "weights/tiny_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

namespace sluice {
namespace {

namespace fs = std::filesystem;
using test::TemporaryDirectory;

CheckpointContent content_of(const fs::path& directory, const ParameterManifest* manifest = nullptr) {
  return read_content(read_checkpoint_index(directory), directory, manifest, {});
}

/// A file of float32 tensors with these values.
struct Values {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};
void write_floats(const fs::path& path, const std::vector<Values>& tensors) {
  std::vector<SafetensorsEntry> entries;
  for (const Values& tensor : tensors) entries.push_back({tensor.name, DType::kFloat32, tensor.shape, 0, 0});
  std::string bytes = make_safetensors_header(entries, {});
  for (const Values& tensor : tensors)
    bytes.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * sizeof(float));
  test::write_file(path, bytes);
}

TEST(CheckpointContent, is_the_same_in_every_layout_and_sharding) {
  const TemporaryDirectory directory;
  const ParameterManifest manifest = test::manifest_of({});
  SynthesizeOptions options{.seed = 3};
  synthesize_checkpoint(KeyMap(manifest), directory / "whole", options);
  options.max_shard_bytes = 50'000;
  options.experts = ExpertLayout::kFused;
  synthesize_checkpoint(KeyMap(manifest), directory / "fused", options);
  options.seed = 4;
  synthesize_checkpoint(KeyMap(manifest), directory / "other", options);

  const CheckpointContent whole = content_of(directory / "whole");
  const CheckpointContent fused = content_of(directory / "fused");
  const CheckpointContent other = content_of(directory / "other");
  EXPECT_TRUE(compare(whole, fused).is_equal());
  EXPECT_EQ(whole.digest(), fused.digest());
  EXPECT_FALSE(compare(whole, other).different.empty());
  EXPECT_NE(whole.digest(), other.digest());
  EXPECT_NE(whole.find("model.layers.2.mlp.experts.7.down_proj.weight"), nullptr);
}

TEST(CheckpointContent, is_the_same_in_every_form_that_the_family_publishes) {
  const TemporaryDirectory directory;
  const ParameterManifest apart = test::manifest_of({.layers = 2, .experts = 3});
  const ParameterManifest joined = test::manifest_of({.layers = 2, .experts = 3, .joined_groups = 2});
  const ParameterManifest turned = test::manifest_of({.layers = 2, .experts = 3, .transposed = true});
  synthesize_checkpoint(KeyMap(apart), directory / "apart", {.seed = 3});
  synthesize_checkpoint(KeyMap(joined), directory / "joined", {.seed = 3});
  synthesize_checkpoint(KeyMap(turned), directory / "turned", {.seed = 3});

  const CheckpointContent content = content_of(directory / "apart", &joined);
  EXPECT_TRUE(compare(content, content_of(directory / "joined", &joined)).is_equal());
  EXPECT_FALSE(compare(content, content_of(directory / "joined")).is_equal());
  const std::string down = "model.layers.1.mlp.experts.2.down_proj.weight";
  const CheckpointContent straight = content_of(directory / "turned", &turned);
  EXPECT_EQ(straight.find(down)->digest, content.find(down)->digest);
  EXPECT_EQ(straight.find(down)->shape, content.find(down)->shape);
}

TEST(CheckpointContent, tells_where_a_transposed_matrix_is_not_finite) {
  const TemporaryDirectory directory;
  const ParameterManifest manifest =
      test::manifest_of({.layers = 1, .experts = 2, .transposed = true, .dtype = DType::kFloat32});
  synthesize_checkpoint(KeyMap(manifest), directory / "model", {.seed = 3});
  const CheckpointIndex index = read_checkpoint_index(directory / "model");
  const auto entry = std::ranges::find(index.entries, "model.layers.0.mlp.experts.down_proj",
                                       &CheckpointEntry::name);  // [2, 48, 64] in the file
  const float nan = std::nanf("");
  OutputFile::open(directory / "model" / "model.safetensors")
      .write_at(entry->begin + ((48 + 7) * 64 + 5) * 4, std::as_bytes(std::span(&nan, 1)));
  const CheckpointContent content = content_of(directory / "model", &manifest);
  const PublishedDigest* down = content.find("model.layers.0.mlp.experts.1.down_proj.weight");
  EXPECT_EQ(down->non_finite, 1);
  EXPECT_EQ(down->first_non_finite, 5 * 48 + 7);
}

TEST(CheckpointContent, counts_what_is_not_finite) {
  const TemporaryDirectory directory;
  const float infinity = std::numeric_limits<float>::infinity();
  write_floats(directory / "model.safetensors", {{"a", {2, 2}, {1, std::nanf(""), -infinity, 0}},
                                                 {"b", {1}, {std::numeric_limits<float>::max()}}});
  const CheckpointContent content = content_of(directory.path());
  EXPECT_EQ(content.find("a")->non_finite, 2);
  EXPECT_EQ(content.find("b")->non_finite, 0);
}

TEST(CheckpointContent, takes_wrapper_prefixes_off) {
  const TemporaryDirectory directory;
  write_floats(directory / "model.safetensors",
               {{"model.language_model.norm.weight", {1}, {1}}, {"language_model.lm_head.weight", {1}, {2}}});
  const CheckpointContent content = content_of(directory.path());
  EXPECT_NE(content.find("model.norm.weight"), nullptr);
  EXPECT_NE(content.find("lm_head.weight"), nullptr);
}

TEST(CheckpointContent, refuses_a_tensor_in_two_spellings) {
  const TemporaryDirectory directory;
  write_floats(directory / "model.safetensors",
               {{"model.language_model.norm.weight", {1}, {1}}, {"model.norm.weight", {1}, {1}}});
  test::expect_error(ExitCode::kBadData,
                     {"model.norm.weight: in ", "model.language_model.norm.weight (model.safetensors)"},
                     [&] { content_of(directory.path()); });
}

TEST(CheckpointContent, refuses_a_file_that_was_changed_meanwhile) {
  const TemporaryDirectory directory;
  write_floats(directory / "model.safetensors", {{"a", {1}, {1}}});
  const CheckpointIndex index = read_checkpoint_index(directory.path());
  write_floats(directory / "model.safetensors", {{"a", {2}, {1, 2}}});
  test::expect_error(ExitCode::kBadData, {"model.safetensors has ", "changed meanwhile"},
                     [&] { static_cast<void>(read_content(index, directory.path(), nullptr, {})); });
}

TEST(CheckpointContent, reports_progress_up_to_the_last_byte) {
  const TemporaryDirectory directory;
  write_floats(directory / "model.safetensors", {{"a", {3}, {1, 2, 3}}, {"b", {1}, {1}}});
  std::vector<std::int64_t> done;
  static_cast<void>(read_content(read_checkpoint_index(directory.path()), directory.path(), nullptr,
                                 [&](std::int64_t bytes) { done.push_back(bytes); }));
  EXPECT_EQ(done, (std::vector<std::int64_t>{12, 16}));
}

/// Contents made up of names and a number that stands for the bytes.
class Comparison : public testing::Test {
 protected:
  static CheckpointContent content(const std::vector<std::pair<std::string, std::uint64_t>>& tensors,
                                   bool tied = false) {
    CheckpointContent content;
    for (const auto& [name, value] : tensors)
      content.tensors.push_back({name, DType::kBFloat16, {4}, {0, value}, 0, 0});
    std::ranges::sort(content.tensors, {}, &PublishedDigest::name);
    content.tied = tied;
    return content;
  }
};

TEST_F(Comparison, names_what_one_side_lacks_and_what_differs) {
  const ContentComparison found =
      compare(content({{"a", 1}, {"b", 2}, {"c", 3}}), content({{"b", 5}, {"c", 3}, {"d", 4}}));
  EXPECT_FALSE(found.is_equal());
  EXPECT_EQ(found.only_here, std::vector<std::string>{"a"});
  EXPECT_EQ(found.only_there, std::vector<std::string>{"d"});
  ASSERT_EQ(found.different.size(), 1u);
  EXPECT_EQ(found.different[0].name, "b");
  EXPECT_EQ(found.different[0].there, "bfloat16 [4] 00000000000000000000000000000005");
}

TEST_F(Comparison, tells_element_types_and_shapes_apart) {
  CheckpointContent other = content({{"a", 1}, {"b", 1}});
  other.tensors[0].dtype = DType::kFloat16;
  other.tensors[1].shape = {2, 2};
  EXPECT_EQ(compare(content({{"a", 1}, {"b", 1}}), other).different.size(), 2u);
}

TEST_F(Comparison, spares_what_no_text_model_needs_if_one_side_lacks_it) {
  const CheckpointContent text = content({{"a", 1}});
  const CheckpointContent more = content({{"a", 1}, {"mtp.fc.weight", 2}, {"model.visual.x", 3}});
  const ContentComparison found = compare(text, more);
  EXPECT_TRUE(found.is_equal());
  EXPECT_EQ(found.spare_there, (std::vector<std::string>{"model.visual.x", "mtp.fc.weight"}));
  EXPECT_EQ(text.digest(), more.digest());
  EXPECT_FALSE(compare(more, content({{"a", 1}, {"mtp.fc.weight", 4}})).is_equal());
}

TEST_F(Comparison, spares_a_tied_head) {
  const std::string head = "lm_head.weight", embedding = "model.embed_tokens.weight";
  const CheckpointContent tied = content({{embedding, 1}}, true);
  EXPECT_TRUE(compare(tied, content({{embedding, 1}, {head, 1}}, false)).is_equal());
  EXPECT_TRUE(compare(content({{embedding, 1}, {head, 2}}, true), tied).is_equal());
  EXPECT_EQ(tied.digest(), content({{embedding, 1}, {head, 2}}, true).digest());
  // A head of its own is no copy, and an untied model without a head is not whole.
  EXPECT_FALSE(compare(tied, content({{embedding, 1}, {head, 2}}, false)).is_equal());
  EXPECT_FALSE(compare(content({{embedding, 1}}), content({{embedding, 1}, {head, 1}})).is_equal());
}

TEST(CheckpointContent, learns_of_ties_from_the_config) {
  const TemporaryDirectory directory;
  write_floats(directory / "model.safetensors", {{"a", {1}, {1}}});
  EXPECT_FALSE(content_of(directory.path()).tied);
  for (const auto& [config, tied] : std::vector<std::pair<std::string, bool>>{
           {R"({"tie_word_embeddings": true})", true},
           {R"({"text_config": {"tie_word_embeddings": true}})", true},
           {R"({"tie_word_embeddings": false, "text_config": {"tie_word_embeddings": true}})", false},
           {R"({"tie_word_embeddings": "yes"})", false},
           {"[1]", false},
           {"{", false}}) {
    test::write_file(directory / "config.json", config);
    EXPECT_EQ(content_of(directory.path()).tied, tied) << config;
  }
}

}  // namespace
}  // namespace sluice
