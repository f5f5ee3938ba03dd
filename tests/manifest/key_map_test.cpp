#include "manifest/key_map.hpp"

#include "base/text.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <map>

namespace sluice {
namespace {

constexpr std::int64_t kExperts = 3, kWidth = 4, kHidden = 5;

ParameterManifest small_moe() {
  ParameterManifest manifest;
  const auto add = [&](std::string name, std::vector<std::int64_t> shape, Role role, int layer,
                       std::string tied_to = {}) {
    manifest.add({std::move(name), std::move(shape), DType::kBFloat16, role, layer, TensorKind::kParameter,
                  std::move(tied_to)});
  };
  add("model.embed_tokens.weight", {7, kHidden}, Role::kEmbedding, -1);
  add("model.layers.0.mlp.gate.weight", {kExperts, kHidden}, Role::kRouter, 0);
  add("model.layers.0.mlp.experts.gate_up_proj", {kExperts, 2 * kWidth, kHidden}, Role::kExpert, 0);
  add("model.layers.0.mlp.experts.down_proj", {kExperts, kHidden, kWidth}, Role::kExpert, 0);
  add("model.norm.weight", {kHidden}, Role::kNorm, -1);
  add("lm_head.weight", {7, kHidden}, Role::kHead, -1, "model.embed_tokens.weight");
  manifest.add({"model.rotary_emb.inv_freq",
                {2},
                DType::kFloat32,
                Role::kAttention,
                -1,
                TensorKind::kComputedBuffer,
                {}});
  manifest.add_foreign_part(ForeignPart::kVisionTower);
  manifest.add_foreign_part(ForeignPart::kMultiTokenPrediction);
  return manifest;
}

class KeyMapTest : public testing::Test {
 protected:
  KeyTarget target(std::string_view name) const { return std::get<KeyTarget>(keys_.resolve(name)); }
  bool unknown(std::string_view name) const {
    return std::holds_alternative<UnknownKey>(keys_.resolve(name));
  }
  std::string ignored_because(std::string_view name) const {
    return std::get<IgnoredKey>(keys_.resolve(name)).reason;
  }

  const ParameterManifest manifest_ = small_moe();
  const KeyMap keys_{manifest_};
};

TEST_F(KeyMapTest, plain_names_stand_for_whole_tensors) {
  const KeyTarget norm = target("model.norm.weight");
  EXPECT_EQ(manifest_[norm.tensor()].name, "model.norm.weight");
  EXPECT_EQ(norm.ranges.front().begin, 0);
  EXPECT_EQ(norm.shape, (std::vector<std::int64_t>{kHidden}));
}

TEST_F(KeyMapTest, wrapper_prefixes_are_taken_off) {
  for (const char* name : {"model.language_model.norm.weight", "language_model.model.norm.weight"})
    EXPECT_EQ(manifest_[target(name).tensor()].name, "model.norm.weight") << name;
}

TEST_F(KeyMapTest, per_expert_names_stand_for_ranges_of_the_fused_tensors) {
  const std::string prefix = "model.layers.0.mlp.experts.2.";
  const std::int64_t block = 2 * kWidth * kHidden;
  const KeyTarget gate = target(prefix + "gate_proj.weight");
  EXPECT_EQ(manifest_[gate.tensor()].name, "model.layers.0.mlp.experts.gate_up_proj");
  EXPECT_EQ(gate.ranges.front().begin, 2 * block);
  EXPECT_EQ(gate.shape, (std::vector<std::int64_t>{kWidth, kHidden}));
  EXPECT_EQ(target(prefix + "up_proj.weight").ranges.front().begin, 2 * block + kWidth * kHidden);
  const KeyTarget down = target(prefix + "down_proj.weight");
  EXPECT_EQ(manifest_[down.tensor()].name, "model.layers.0.mlp.experts.down_proj");
  EXPECT_EQ(down.ranges.front().begin, 2 * kHidden * kWidth);
  EXPECT_EQ(down.shape, (std::vector<std::int64_t>{kHidden, kWidth}));
}

TEST_F(KeyMapTest, fused_names_stand_for_the_fused_tensors) {
  EXPECT_EQ(target("model.language_model.layers.0.mlp.experts.gate_up_proj").shape,
            (std::vector<std::int64_t>{kExperts, 2 * kWidth, kHidden}));
}

TEST_F(KeyMapTest, gate_and_up_of_an_expert_may_be_joined) {
  const KeyTarget joined = target("model.layers.0.mlp.experts.2.gate_up_proj.weight");
  EXPECT_EQ(joined.tensor(), target("model.layers.0.mlp.experts.gate_up_proj").tensor());
  EXPECT_EQ(joined.ranges.front().begin, 2 * 2 * kWidth * kHidden);
  EXPECT_EQ(joined.shape, (std::vector<std::int64_t>{2 * kWidth, kHidden}));
  EXPECT_EQ(joined.ranges.size(), 1U);
}

TEST_F(KeyMapTest, fused_experts_may_have_gates_and_ups_apart) {
  const KeyTarget fused = target("model.layers.0.mlp.experts.gate_up_proj");
  const KeyTarget gate = target("model.language_model.layers.0.mlp.experts.gate_proj");
  const KeyTarget up = target("model.layers.0.mlp.experts.up_proj");
  for (const KeyTarget& part : {gate, up}) {
    EXPECT_EQ(part.tensor(), fused.tensor());
    EXPECT_EQ(part.shape, (std::vector<std::int64_t>{kExperts, kWidth, kHidden}));
    ASSERT_EQ(part.ranges.size(), static_cast<std::size_t>(kExperts));
    EXPECT_EQ(part.ranges[1].begin - part.ranges[0].begin, 2 * kWidth * kHidden);
  }
  EXPECT_EQ(gate.ranges.front().begin, 0);
  EXPECT_EQ(up.ranges.front().begin, kWidth * kHidden);
}

TEST(KeyMapWithoutGates, experts_have_an_up_projection_of_their_own) {
  ParameterManifest manifest;
  const std::string experts = "model.layers.0.mlp.experts.";
  const auto add = [&](std::string_view name, std::int64_t rows, std::int64_t columns) {
    TensorInfo info;
    info.name = experts + std::string(name);
    info.shape = {kExperts, rows, columns};
    info.role = Role::kExpert;
    info.layer = 0;
    manifest.add(std::move(info));
  };
  add("up_proj", kWidth, kHidden);
  add("down_proj", kHidden, kWidth);
  const KeyMap keys(manifest);
  const auto up = std::get<KeyTarget>(keys.resolve(experts + "2.up_proj.weight"));
  EXPECT_EQ(manifest[up.tensor()].name, experts + "up_proj");
  EXPECT_EQ(up.ranges.front().begin, 2 * kWidth * kHidden);
  EXPECT_EQ(up.shape, (std::vector<std::int64_t>{kWidth, kHidden}));
  for (const char* absent : {"2.gate_proj.weight", "3.up_proj.weight", "gate_up_proj"})
    EXPECT_TRUE(std::holds_alternative<UnknownKey>(keys.resolve(experts + absent))) << absent;
  const std::vector<PublishedTensor> published = keys.published(ExpertLayout::kPerExpert);
  ASSERT_EQ(published.size(), static_cast<std::size_t>(2 * kExperts));
  EXPECT_EQ(published[0].name, experts + "0.up_proj.weight");
  EXPECT_EQ(published[5].name, experts + "2.down_proj.weight");
}

TEST_F(KeyMapTest, experts_may_be_spelled_as_mixtral_is_published) {
  const std::string published = "model.layers.0.block_sparse_moe.";
  const std::string plain = "model.layers.0.mlp.";
  for (const auto& [name, same] :
       std::map<std::string, std::string>{{"gate.weight", "gate.weight"},
                                          {"experts.2.w1.weight", "experts.2.gate_proj.weight"},
                                          {"experts.2.w3.weight", "experts.2.up_proj.weight"},
                                          {"experts.2.w2.weight", "experts.2.down_proj.weight"},
                                          {"experts.gate_up_proj", "experts.gate_up_proj"},
                                          {"experts.down_proj", "experts.down_proj"}}) {
    EXPECT_EQ(target(published + name).ranges, target(plain + same).ranges) << name;
    EXPECT_EQ(target(published + name).shape, target(plain + same).shape) << name;
  }
  EXPECT_TRUE(unknown(published + "experts.3.w1.weight"));
  EXPECT_TRUE(unknown(published + "experts.2.w4.weight"));
}

TEST_F(KeyMapTest, experts_that_the_model_does_not_have_are_unknown) {
  for (const char* name :
       {"model.layers.0.mlp.experts.3.gate_proj.weight", "model.layers.0.mlp.experts.-1.gate_proj.weight",
        "model.layers.0.mlp.experts.01.gate_proj.weight", "model.layers.0.mlp.experts.x.gate_proj.weight",
        "model.layers.0.mlp.experts.1.side_proj.weight", "model.layers.0.mlp.experts.1.gate_proj.bias",
        "model.layers.1.mlp.experts.1.gate_proj.weight", "model.layers.0.mlp.experts.",
        "model.layers.0.mlp.experts.99999999999999999999.gate_proj.weight", ""})
    EXPECT_TRUE(unknown(name)) << name;
}

TEST_F(KeyMapTest, what_training_does_not_need_is_ignored_with_a_reason) {
  EXPECT_EQ(ignored_because("lm_head.weight"), "copy of a tied tensor");
  EXPECT_EQ(ignored_because("language_model.lm_head.weight"), "copy of a tied tensor");
  EXPECT_EQ(ignored_because("model.visual.blocks.0.attn.qkv.weight"), "vision tower");
  EXPECT_EQ(ignored_because("mtp.fc.weight"), "multi-token prediction");
  EXPECT_EQ(ignored_because("language_model.model.rotary_emb.inv_freq"), "computed buffer");
  EXPECT_EQ(ignored_because("model.rotary_emb.inv_freq"), "computed buffer");
  EXPECT_EQ(ignored_because("model.layers.0.self_attn.rotary_emb.inv_freq"), "computed buffer");
}

TEST(KeyMap, parts_that_an_architecture_never_has_are_unknown) {
  ParameterManifest manifest;
  manifest.add({"model.norm.weight", {3}, DType::kBFloat16, Role::kNorm, -1, TensorKind::kParameter, ""});
  const KeyMap keys(manifest);
  for (const char* name : {"model.visual.merger.norm.weight", "visual.pos_embed.weight", "mtp.fc.weight"})
    EXPECT_TRUE(std::holds_alternative<UnknownKey>(keys.resolve(name))) << name;
}

TEST(KeyMap, persistent_buffers_are_published_like_parameters) {
  ParameterManifest manifest;
  manifest.add({"model.layers.0.mlp.gate.e_score_correction_bias",
                {3},
                DType::kFloat32,
                Role::kRouter,
                0,
                TensorKind::kPersistentBuffer,
                ""});
  const KeyMap keys(manifest);
  ASSERT_EQ(keys.published(ExpertLayout::kPerExpert).size(), 1U);
  const auto resolved = keys.resolve("model.language_model.layers.0.mlp.gate.e_score_correction_bias");
  EXPECT_EQ(std::get<KeyTarget>(resolved).tensor(), 0);
}

TEST(KeyMap, a_wrapper_publishes_under_its_own_prefix_but_for_the_head) {
  ParameterManifest manifest = small_moe();
  manifest.set_published_prefix("model.language_model.");
  manifest.add({"lm_head.bias", {7}, DType::kBFloat16, Role::kHead, -1, TensorKind::kParameter, ""});
  const std::vector<PublishedTensor> published = KeyMap(manifest).published(ExpertLayout::kPerExpert);
  EXPECT_EQ(published.front().name, "model.language_model.embed_tokens.weight");
  EXPECT_EQ(published[2].name, "model.language_model.layers.0.mlp.experts.0.gate_proj.weight");
  EXPECT_EQ(published.back().name, "lm_head.bias");
}

TEST(KeyMap, a_prefix_that_transformers_renames_is_one_of_checkpoints_alone) {
  ParameterManifest manifest;
  manifest.add({"model.norm.weight", {8}, DType::kBFloat16, Role::kNorm, -1, TensorKind::kParameter, ""});
  manifest.add({"lm_head.weight", {4, 8}, DType::kBFloat16, Role::kHead, -1, TensorKind::kParameter, ""});
  manifest.set_renamed_prefix("backbone.");
  const std::vector<PublishedTensor> published = KeyMap(manifest).published(ExpertLayout::kPerExpert);
  EXPECT_EQ(published[0].name, "backbone.norm.weight");
  EXPECT_EQ(published[1].name, "lm_head.weight");
  EXPECT_EQ(manifest.wrapped_name("model.norm.weight"), "model.norm.weight");
  EXPECT_TRUE(std::holds_alternative<KeyTarget>(KeyMap(manifest).resolve("backbone.norm.weight")));
}

TEST(KeyMap, an_architecture_publishes_its_experts_in_its_own_spelling) {
  ParameterManifest manifest = small_moe();
  manifest.set_published_experts(kMixtralExperts);
  const KeyMap keys(manifest);
  std::vector<std::string> names;
  for (const PublishedTensor& tensor : keys.published(ExpertLayout::kPerExpert)) names.push_back(tensor.name);
  const std::string block = "model.layers.0.block_sparse_moe.";
  EXPECT_EQ(names[1], block + "gate.weight");
  EXPECT_EQ(names[2], block + "experts.0.w1.weight");
  EXPECT_EQ(names[3], block + "experts.0.w3.weight");
  EXPECT_EQ(names[4], block + "experts.0.w2.weight");
  EXPECT_EQ(keys.published(ExpertLayout::kFused)[2].name, block + "experts.gate_up_proj");
  EXPECT_EQ(manifest.wrapped_name("model.layers.0.mlp.gate.weight"), "model.layers.0.mlp.gate.weight");
  for (const ExpertLayout layout : {ExpertLayout::kPerExpert, ExpertLayout::kFused})
    for (const PublishedTensor& tensor : keys.published(layout))
      EXPECT_EQ(std::get<KeyTarget>(keys.resolve(tensor.name)).ranges, tensor.target.ranges) << tensor.name;
}

/// Elements of each tensor that a published checkpoint covers, by how often.
std::map<int, std::vector<int>> coverage(const KeyMap& keys, ExpertLayout layout) {
  std::map<int, std::vector<int>> counts;
  for (const int tensor : keys.manifest().stored_tensors())
    counts[tensor].assign(static_cast<std::size_t>(keys.manifest()[tensor].element_count()), 0);
  for (const PublishedTensor& published : keys.published(layout)) {
    for (const TensorRange& range : published.target.ranges)
      for (std::int64_t i = range.begin; i < range.end(); ++i)
        ++counts.at(range.tensor)[static_cast<std::size_t>(i)];
  }
  return counts;
}

TEST_F(KeyMapTest, published_tensors_cover_every_stored_element_once_in_either_layout) {
  for (const ExpertLayout layout : {ExpertLayout::kPerExpert, ExpertLayout::kFused})
    for (const auto& [tensor, counts] : coverage(keys_, layout))
      EXPECT_EQ(counts, std::vector<int>(counts.size(), 1)) << manifest_[tensor].name;
}

TEST_F(KeyMapTest, published_names_resolve_to_their_own_targets) {
  for (const ExpertLayout layout : {ExpertLayout::kPerExpert, ExpertLayout::kFused}) {
    for (const PublishedTensor& published : keys_.published(layout)) {
      const KeyTarget resolved = target(published.name);
      EXPECT_EQ(resolved.ranges, published.target.ranges) << published.name;
      EXPECT_EQ(resolved.shape, published.target.shape) << published.name;
    }
  }
}

/// Two key heads of 2 rows each in q and k, 3 rows each in v, and 1 row each of a gate.
ParameterManifest small_joined() {
  ParameterManifest manifest;
  const auto add = [&](std::string name, std::vector<std::int64_t> shape) {
    manifest.add({std::move(name), std::move(shape), DType::kBFloat16, Role::kLinearAttention, 0,
                  TensorKind::kParameter, ""});
  };
  add("model.layers.0.mixer.in_proj_qkv.weight", {2 * 2 + 2 * 2 + 2 * 3, kHidden});
  add("model.layers.0.mixer.norm.weight", {kHidden});
  add("model.layers.0.mixer.in_proj_z.weight", {2, kHidden});
  const std::string_view qkv = "model.layers.0.mixer.in_proj_qkv.weight";
  const std::array<JoinedRows, 4> rows{JoinedRows{qkv, 0, 2}, JoinedRows{qkv, 4, 2}, JoinedRows{qkv, 8, 3},
                                       JoinedRows{"model.layers.0.mixer.in_proj_z.weight", 0, 1}};
  manifest.add_joined("model.layers.0.mixer.in_proj_qkvz.weight", 2, rows);
  return manifest;
}

TEST(KeyMap, rows_of_several_tensors_may_be_published_joined_group_by_group) {
  const ParameterManifest manifest = small_joined();
  const KeyMap keys(manifest);
  const auto joined =
      std::get<KeyTarget>(keys.resolve("model.language_model.layers.0.mixer.in_proj_qkvz.weight"));
  EXPECT_EQ(joined.shape, (std::vector<std::int64_t>{16, kHidden}));
  const auto rows = [](int tensor, std::int64_t first, std::int64_t count) {
    return TensorRange{tensor, first * kHidden, count * kHidden};
  };
  EXPECT_EQ(joined.ranges,
            (std::vector<TensorRange>{rows(0, 0, 2), rows(0, 4, 2), rows(0, 8, 3), rows(2, 0, 1),
                                      rows(0, 2, 2), rows(0, 6, 2), rows(0, 11, 3), rows(2, 1, 1)}));
}

TEST(KeyMap, a_joined_tensor_is_published_in_place_of_those_that_it_is_joined_from) {
  const ParameterManifest manifest = small_joined();
  const KeyMap keys(manifest);
  const std::vector<PublishedTensor> published = keys.published(ExpertLayout::kPerExpert);
  ASSERT_EQ(published.size(), 2U);
  EXPECT_EQ(published[0].name, "model.layers.0.mixer.in_proj_qkvz.weight");
  EXPECT_EQ(published[1].name, "model.layers.0.mixer.norm.weight");
  for (const auto& [tensor, counts] : coverage(keys, ExpertLayout::kPerExpert))
    EXPECT_EQ(counts, std::vector<int>(counts.size(), 1)) << manifest[tensor].name;
}

TEST(KeyMap, a_tensor_that_the_module_tree_alone_has_joined_is_published_in_its_parts) {
  ParameterManifest manifest;
  for (const char* name : {"model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.up_proj.weight"})
    manifest.add({name, {3, kHidden}, DType::kBFloat16, Role::kDenseMlp, 0, TensorKind::kParameter, ""});
  const std::string joined = "model.layers.0.mlp.gate_up_proj.weight";
  const std::array<JoinedRows, 2> rows{JoinedRows{"model.layers.0.mlp.gate_proj.weight", 0, 3},
                                       JoinedRows{"model.layers.0.mlp.up_proj.weight", 0, 3}};
  manifest.add_joined(joined, 1, rows, JoinedIn::kTree);
  const KeyMap keys(manifest);
  const std::vector<PublishedTensor> published = keys.published(ExpertLayout::kPerExpert);
  ASSERT_EQ(published.size(), 2U);
  EXPECT_EQ(published[0].name, "model.layers.0.mlp.gate_proj.weight");
  EXPECT_EQ(std::get<KeyTarget>(keys.resolve(joined)).shape, (std::vector<std::int64_t>{6, kHidden}));
  EXPECT_EQ(manifest.joined_in_tree(1)->name, joined);
}

TEST(KeyMap, experts_by_projection_have_three_tensors_a_layer_in_either_layout) {
  ParameterManifest manifest = small_moe();
  manifest.set_published_experts(kStepExperts);
  manifest.set_experts_by_projection();
  const KeyMap keys(manifest);
  const std::string block = "model.layers.0.moe.";
  for (const ExpertLayout layout : {ExpertLayout::kPerExpert, ExpertLayout::kFused}) {
    const std::vector<PublishedTensor> published = keys.published(layout);
    EXPECT_EQ(published[1].name, block + "gate.weight");
    EXPECT_EQ(published[2].name, block + "gate_proj.weight");
    EXPECT_EQ(published[3].name, block + "up_proj.weight");
    EXPECT_EQ(published[4].name, block + "down_proj.weight");
    EXPECT_EQ(published[3].target.shape, (std::vector<std::int64_t>{kExperts, kWidth, kHidden}));
    for (const PublishedTensor& tensor : published)
      EXPECT_EQ(std::get<KeyTarget>(keys.resolve(tensor.name)).ranges, tensor.target.ranges) << tensor.name;
    for (const auto& [tensor, counts] : coverage(keys, layout))
      EXPECT_EQ(counts, std::vector<int>(counts.size(), 1)) << manifest[tensor].name;
  }
}

TEST(KeyMap, transposed_experts_have_two_tensors_a_layer_and_no_other_names) {
  ParameterManifest manifest = small_moe();
  manifest.set_transposed_experts();
  const KeyMap keys(manifest);
  const std::string experts = "model.layers.0.mlp.experts.";
  const auto gate_up = std::get<KeyTarget>(keys.resolve(experts + "gate_up_proj"));
  EXPECT_TRUE(gate_up.is_transposed);
  EXPECT_EQ(gate_up.shape, (std::vector<std::int64_t>{kExperts, kHidden, 2 * kWidth}));
  const auto codes = std::get<KeyTarget>(keys.resolve(experts + "gate_up_proj", /*quantised=*/true));
  EXPECT_FALSE(codes.is_transposed);
  EXPECT_EQ(codes.shape, (std::vector<std::int64_t>{kExperts, 2 * kWidth, kHidden}));
  EXPECT_EQ(codes.ranges, gate_up.ranges);
  for (const char* name :
       {"gate_proj", "up_proj", "2.gate_proj.weight", "2.gate_up_proj.weight", "2.down_proj.weight"})
    EXPECT_TRUE(std::holds_alternative<UnknownKey>(keys.resolve(experts + name))) << name;
  for (const ExpertLayout layout : {ExpertLayout::kPerExpert, ExpertLayout::kFused})
    EXPECT_EQ(keys.published(layout)[2].name, experts + "gate_up_proj");
}

std::string parts_text(std::string_view name, const std::vector<std::int64_t>& shape,
                       GateAndUp joined = GateAndUp::kSplit) {
  const PerExpertCut cut(name, shape, joined);
  std::string text;
  for (std::int64_t part = 0; part < cut.parts(); ++part)
    text += fmt::format("{} {}\n", cut.name_of(part), shape_text(cut.shape()));
  return text;
}

TEST(PerExpertCut, takes_fused_experts_apart) {
  EXPECT_EQ(parts_text("mlp.experts.gate_up_proj", {2, 6, 5}),
            "mlp.experts.0.gate_proj.weight [3, 5]\nmlp.experts.0.up_proj.weight [3, 5]\n"
            "mlp.experts.1.gate_proj.weight [3, 5]\nmlp.experts.1.up_proj.weight [3, 5]\n");
  EXPECT_EQ(parts_text("mlp.experts.down_proj", {2, 5, 3}),
            "mlp.experts.0.down_proj.weight [5, 3]\nmlp.experts.1.down_proj.weight [5, 3]\n");
  EXPECT_EQ(parts_text("mlp.experts.7.gate_up_proj.weight", {6, 5}),
            "mlp.experts.7.gate_proj.weight [3, 5]\nmlp.experts.7.up_proj.weight [3, 5]\n");
}

TEST(PerExpertCut, keeps_gate_and_up_of_an_expert_joined) {
  EXPECT_EQ(parts_text("mlp.experts.gate_up_proj", {2, 6, 5}, GateAndUp::kJoined),
            "mlp.experts.0.gate_up_proj.weight [6, 5]\nmlp.experts.1.gate_up_proj.weight [6, 5]\n");
}

TEST(PerExpertCut, leaves_everything_else_whole) {
  EXPECT_EQ(parts_text("model.norm.weight", {5}), "model.norm.weight [5]\n");
  EXPECT_EQ(parts_text("mlp.experts.1.up_proj.weight", {3, 5}), "mlp.experts.1.up_proj.weight [3, 5]\n");
  EXPECT_EQ(parts_text("mlp.experts.gate_up_proj", {2, 5, 5}), "mlp.experts.gate_up_proj [2, 5, 5]\n");
  EXPECT_EQ(parts_text("mlp.experts.down_proj", {6, 5}), "mlp.experts.down_proj [6, 5]\n");
}

TEST(PerExpertCut, makes_no_more_names_than_a_model_has) {
  EXPECT_EQ(PerExpertCut("mlp.experts.down_proj", {std::int64_t{1} << 60, 0, 5}).parts(), 1);
  EXPECT_EQ(PerExpertCut("mlp.experts.down_proj", {std::int64_t{1} << 20, 1, 1}).parts(), 1);
  EXPECT_EQ(PerExpertCut("mlp.experts.down_proj", {0, 5, 5}).parts(), 1);
}

}  // namespace
}  // namespace sluice
