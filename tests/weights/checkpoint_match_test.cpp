#include "weights/checkpoint_match.hpp"

#include "weights/tiny_model.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

namespace sluice {
namespace {

using test::error_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr DType kArena = DType::kBFloat16;

/// An index as if a checkpoint of this model had been read.
CheckpointIndex index_of(const KeyMap& keys, ExpertLayout layout) {
  CheckpointIndex index;
  index.files.push_back({"model.safetensors", 0});
  for (const PublishedTensor& tensor : keys.published(layout)) {
    const auto& shape = tensor.target.shape;
    const std::int64_t bytes =
        std::accumulate(shape.begin(), shape.end(), std::int64_t{2}, std::multiplies<>());
    index.entries.push_back({tensor.name, 0, DType::kBFloat16, shape, 0, bytes});
  }
  return index;
}

class CheckpointMatchTest : public testing::Test {
 protected:
  CheckpointEntry& entry(const std::string& name) {
    return *std::ranges::find(index_.entries, name, &CheckpointEntry::name);
  }
  void erase(const std::string& name) {
    std::erase_if(index_.entries, [&](const CheckpointEntry& e) { return e.name == name; });
  }
  std::string error() {
    return error_of([&] { static_cast<void>(match_checkpoint(index_, keys_, kArena)); });
  }

  ParameterManifest manifest_ = test::manifest_of({.layers = 2, .dense_layers = {1}});
  KeyMap keys_{manifest_};
  CheckpointIndex index_ = index_of(keys_, ExpertLayout::kPerExpert);
};

TEST_F(CheckpointMatchTest, accepts_both_expert_layouts) {
  EXPECT_EQ(match_checkpoint(index_, keys_, kArena).experts, ExpertLayout::kPerExpert);
  const CheckpointIndex fused = index_of(keys_, ExpertLayout::kFused);
  const CheckpointMatch match = match_checkpoint(fused, keys_, kArena);
  EXPECT_EQ(match.experts, ExpertLayout::kFused);
  EXPECT_EQ(match.entries.size(), fused.entries.size());
}

TEST_F(CheckpointMatchTest, lists_every_kind_of_difference_in_one_report) {
  erase("model.layers.0.mlp.experts.3.up_proj.weight");
  erase("model.norm.weight");
  entry("model.embed_tokens.weight").shape = {511, 64};
  entry("lm_head.weight").dtype = DType::kInt64;
  index_.entries.push_back({"model.layers.7.mystery", 0, kArena, {3}, 0, 6});
  const std::string text = error();
  EXPECT_THAT(text, HasSubstr("missing (2):"));
  EXPECT_THAT(text, HasSubstr("model.layers.0.mlp.experts.3.up_proj.weight [48, 64]"));
  EXPECT_THAT(text, HasSubstr("model.norm.weight [64]"));
  EXPECT_THAT(text,
              HasSubstr("model.embed_tokens.weight (model.safetensors) is [511, 64], expected [512, 64]"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "lm_head.weight (model.safetensors) is int64, expected bfloat16, float16, float32 or float64"));
  EXPECT_THAT(text, HasSubstr("model.layers.7.mystery (model.safetensors) [3]"));
  EXPECT_THAT(text, Not(HasSubstr("there twice")));
}

TEST_F(CheckpointMatchTest, a_listed_tensor_that_no_file_holds_is_missing_only_if_the_model_needs_it) {
  index_.absent = {{"mtp.norm.weight", "x.safetensors"}, {"model.layers.7.mystery", "x.safetensors"}};
  EXPECT_NO_THROW(static_cast<void>(match_checkpoint(index_, keys_, kArena)));
  erase("model.norm.weight");
  index_.absent.push_back({"model.norm.weight", "y.safetensors"});
  EXPECT_THAT(error(), AllOf(HasSubstr("missing (1):"), HasSubstr("model.norm.weight (y.safetensors)"),
                             Not(HasSubstr("mtp."))));
}

TEST_F(CheckpointMatchTest, takes_joined_tensors_apart_and_names_them_when_they_are_missing) {
  manifest_ = test::manifest_of({.layers = 2, .joined_groups = 2});
  index_ = index_of(keys_, ExpertLayout::kFused);
  const CheckpointMatch match = match_checkpoint(index_, keys_, kArena);
  EXPECT_EQ(match.entries.size(), index_.entries.size() + 2 * 5);  // each fills six ranges
  erase("model.layers.1.self_attn.query_key_value.weight");
  EXPECT_THAT(error(), AllOf(HasSubstr("missing (1):"),
                             HasSubstr("model.layers.1.self_attn.query_key_value.weight [256, 64]")));
}

TEST_F(CheckpointMatchTest, transposed_experts_are_known_by_the_family_and_their_codes_lie_straight) {
  manifest_ = test::manifest_of({.hidden = 64, .layers = 1, .expert_width = 32, .transposed = true});
  index_ = index_of(keys_, ExpertLayout::kFused);
  CheckpointMatch match = match_checkpoint(index_, keys_, kArena);
  EXPECT_EQ(std::ranges::count(match.entries, true, &MatchedEntry::is_transposed), 2);
  for (CheckpointEntry& e : index_.entries)
    if (e.name.ends_with("experts.down_proj")) {
      e.shape = {8, 64, 32};
      e.encoding = 0;
    }
  index_.encodings.emplace_back();
  match = match_checkpoint(index_, keys_, kArena);
  EXPECT_EQ(std::ranges::count(match.entries, true, &MatchedEntry::is_transposed), 1);
}

TEST_F(CheckpointMatchTest, rows_that_are_there_joined_and_apart_are_there_twice) {
  manifest_ = test::manifest_of({.layers = 1, .joined_groups = 1});
  index_ = index_of(keys_, ExpertLayout::kFused);
  index_.entries.push_back({"model.layers.0.self_attn.k_proj.weight", 0, kArena, {64, 64}, 0, 64 * 64 * 2});
  EXPECT_THAT(error(), AllOf(HasSubstr("there twice (1):"), HasSubstr("self_attn.query_key_value.weight")));
}

TEST_F(CheckpointMatchTest, names_fused_tensors_when_those_are_missing) {
  index_ = index_of(keys_, ExpertLayout::kFused);
  erase("model.layers.0.mlp.experts.down_proj");
  EXPECT_THAT(error(), AllOf(HasSubstr("missing (1):"),
                             HasSubstr("model.layers.0.mlp.experts.down_proj [8, 64, 48]")));
}

/// Takes the fused experts of layer 0 apart into gates and ups.
void separate_gates(CheckpointIndex& index) {
  const std::string experts = "model.layers.0.mlp.experts.";
  auto& joined = *std::ranges::find(index.entries, experts + "gate_up_proj", &CheckpointEntry::name);
  joined = {experts + "gate_proj", 0, kArena, {8, 48, 64}, 0, 8 * 48 * 64 * 2};
  CheckpointEntry up = joined;
  up.name = experts + "up_proj";
  index.entries.push_back(up);
}

TEST_F(CheckpointMatchTest, accepts_fused_experts_with_gates_and_ups_apart) {
  index_ = index_of(keys_, ExpertLayout::kFused);
  separate_gates(index_);
  const CheckpointMatch match = match_checkpoint(index_, keys_, kArena);
  EXPECT_EQ(match.experts, ExpertLayout::kFused);
  const int ups = static_cast<int>(index_.entries.size()) - 1;
  std::vector<MatchedEntry> blocks;
  std::ranges::copy_if(match.entries, std::back_inserter(blocks),
                       [&](const MatchedEntry& m) { return m.entry == ups; });
  ASSERT_EQ(blocks.size(), 8U);
  EXPECT_EQ(blocks[3].begin, (3 * 96 + 48) * 64);
  EXPECT_EQ(blocks[3].entry_begin, 3 * 48 * 64);
  EXPECT_EQ(blocks[3].count, 48 * 64);
}

TEST_F(CheckpointMatchTest, says_which_fused_tensor_lacks_a_part) {
  for (const char* lost : {"model.layers.0.mlp.experts.gate_proj", "model.layers.0.mlp.experts.up_proj"}) {
    index_ = index_of(keys_, ExpertLayout::kFused);
    separate_gates(index_);
    erase(lost);
    EXPECT_THAT(error(), AllOf(HasSubstr("missing (1):"),
                               HasSubstr("model.layers.0.mlp.experts.gate_up_proj [8, 96, 64]"),
                               HasSubstr("24576 of 49152 elements")));
  }
}

TEST_F(CheckpointMatchTest, accepts_an_expert_with_gate_and_up_joined) {
  const std::string expert = "model.layers.0.mlp.experts.3.";
  erase(expert + "gate_proj.weight");
  entry(expert + "up_proj.weight") = {expert + "gate_up_proj.weight", 0, kArena, {96, 64}, 0, 96 * 64 * 2};
  EXPECT_EQ(match_checkpoint(index_, keys_, kArena).entries.size(), index_.entries.size());
}

TEST_F(CheckpointMatchTest, names_what_is_missing_as_its_wrapper_publishes_it) {
  manifest_.set_published_prefix("model.language_model.");
  erase("model.layers.1.mlp.up_proj.weight");
  EXPECT_THAT(error(), HasSubstr("model.language_model.layers.1.mlp.up_proj.weight [160, 64]"));
}

TEST_F(CheckpointMatchTest, refuses_the_same_tensor_under_two_prefixes) {
  CheckpointEntry copy = entry("model.norm.weight");
  copy.name = "language_model.model.norm.weight";
  index_.entries.push_back(copy);
  EXPECT_THAT(error(), HasSubstr("there twice (1):"));
}

TEST_F(CheckpointMatchTest, takes_any_floating_type_into_either_training_type) {
  for (const DType file : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (CheckpointEntry& e : index_.entries) e.dtype = file;
    for (const DType arena : {DType::kFloat32, DType::kBFloat16})
      EXPECT_EQ(match_checkpoint(index_, keys_, arena).entries.size(), index_.entries.size());
  }
}

TEST_F(CheckpointMatchTest, refuses_fused_and_per_expert_tensors_together) {
  index_.entries.push_back(index_of(keys_, ExpertLayout::kFused).entries[7]);
  ASSERT_EQ(index_.entries.back().name, "model.layers.0.mlp.experts.gate_up_proj");
  EXPECT_THAT(error(), AllOf(HasSubstr("there twice (16):"),
                             HasSubstr("experts.7.up_proj.weight (model.safetensors) repeats elements of "
                                       "model.layers.0.mlp.experts.gate_up_proj")));
}

TEST_F(CheckpointMatchTest, ignores_tied_copies_and_foreign_parts_by_reason) {
  const ParameterManifest tied = test::manifest_of({.experts = 0, .tied = true});
  const KeyMap keys(tied);
  CheckpointIndex index = index_of(keys, ExpertLayout::kPerExpert);
  const std::size_t needed = index.entries.size();
  index.entries.push_back({"lm_head.weight", 0, kArena, {512, 64}, 0, 65536});
  index.entries.push_back({"model.visual.a", 0, kArena, {2}, 0, 4});
  index.entries.push_back({"model.visual.b", 0, kArena, {2}, 0, 4});
  const CheckpointMatch match = match_checkpoint(index, keys, kArena);
  EXPECT_EQ(match.entries.size(), needed);
  EXPECT_THAT(ignored_text(match),
              testing::UnorderedElementsAre(
                  AllOf(HasSubstr("ignored 1 tensor (65.54 kB)"), Not(HasSubstr("trained"))),
                  AllOf(HasSubstr("ignored 2 tensors (8 B): vision tower"), HasSubstr("not trained"))));
}

TEST_F(CheckpointMatchTest, shortens_a_list_that_would_fill_the_screen) {
  index_.entries.resize(1);
  for (int i = 0; i < 300; ++i)
    index_.entries.push_back({fmt::format("unknown.{}", i), 0, kArena, {1}, 0, 2});
  EXPECT_THAT(error(),
              AllOf(HasSubstr("unexpected (300):"), HasSubstr("unknown.99 "), HasSubstr("and 200 more")));
}

}  // namespace
}  // namespace sluice
