#include "manifest/manifest.hpp"

#include "base/error.hpp"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TensorInfo tensor(std::string name, std::vector<std::int64_t> shape, std::string tied_to = {}) {
  return {std::move(name),        std::move(shape),  DType::kBFloat16, Role::kDenseMlp, 0,
          TensorKind::kParameter, std::move(tied_to)};
}

ParameterManifest two_tensors() {
  ParameterManifest manifest;
  manifest.add(tensor("a", {2, 3}));
  manifest.add(tensor("b", {4}));
  return manifest;
}

TEST(ParameterManifest, finds_tensors_by_name) {
  const ParameterManifest manifest = two_tensors();
  EXPECT_EQ(manifest.find("b"), 1);
  EXPECT_EQ(manifest.find("c"), std::nullopt);
}

TEST(ParameterManifest, counts_a_tied_tensor_once_and_computed_buffers_never) {
  ParameterManifest manifest = two_tensors();
  manifest.add(tensor("tied", {2, 3}, "a"));
  manifest.add({"table", {100}, DType::kFloat32, Role::kAttention, -1, TensorKind::kComputedBuffer, {}});
  EXPECT_EQ(manifest.parameter_count(), 10);
  EXPECT_EQ(manifest.stored_tensors(), (std::vector<int>{0, 1}));
}

TEST(ParameterManifest, persistent_buffers_are_of_a_checkpoint_and_in_no_shard) {
  ParameterManifest manifest = two_tensors();
  manifest.add({"bias", {5}, DType::kFloat32, Role::kRouter, 0, TensorKind::kPersistentBuffer, {}});
  EXPECT_EQ(manifest.parameter_count(), 10);
  EXPECT_EQ(manifest.stored_tensors(), (std::vector<int>{0, 1}));
  EXPECT_EQ(manifest.trained_tensors(), (std::vector<int>{0, 1}));
  EXPECT_EQ(manifest.whole_tensors(), (std::vector<int>{2}));
  EXPECT_EQ(manifest.checkpoint_tensors(), (std::vector<int>{0, 1, 2}));
}

TEST(ParameterManifest, float32_parameters_lie_behind_buffers_and_those_that_are_trained_last) {
  ParameterManifest manifest = two_tensors();
  for (const char* name : {"a_log", "skip"})
    manifest.add({name, {3}, DType::kFloat32, Role::kLinearAttention, 0, TensorKind::kFloat32Parameter, {}});
  manifest.add({"bias", {5}, DType::kFloat32, Role::kRouter, 0, TensorKind::kPersistentBuffer, {}});
  EXPECT_EQ(manifest.parameter_count(), 16);
  EXPECT_EQ(manifest.stored_tensors(), (std::vector<int>{0, 1}));
  EXPECT_EQ(manifest.whole_tensors(), (std::vector<int>{4, 2, 3}));
  manifest.freeze(3);
  EXPECT_EQ(manifest.whole_tensors(), (std::vector<int>{4, 3, 2}));
  EXPECT_EQ(manifest.trained_parameter_count(), 13);
}

TEST(ParameterManifest, what_ranks_hold_whole_can_be_published_under_another_name_and_joined_with_nothing) {
  ParameterManifest manifest;
  for (const char* name : {"a_log", "skip"})
    manifest.add({name, {3}, DType::kFloat32, Role::kLinearAttention, 0, TensorKind::kFloat32Parameter, {}});
  const std::vector<JoinedRows> one{{"a_log", 0, 3}}, both{{"a_log", 0, 3}, {"skip", 0, 3}};
  manifest.add_joined("mixer.A_log", 1, one);
  EXPECT_EQ(manifest.find_joined("mixer.A_log")->ranges, (std::vector<TensorRange>{{0, 0, 3}}));
  EXPECT_THROW(manifest.add_joined("mixer.both", 1, both), Error);
}

TEST(ParameterManifest, knows_layers_for_prediction_by_their_numbers) {
  ParameterManifest manifest;
  EXPECT_FALSE(manifest.is_in_prediction_layer("model.layers.0.enorm.weight"));
  manifest.set_prediction_layers({46, 48});
  EXPECT_TRUE(manifest.is_in_prediction_layer("model.layers.46.enorm.weight"));
  EXPECT_TRUE(manifest.is_in_prediction_layer("model.layers.47.enorm.weight"));
  for (const char* name :
       {"model.layers.45.enorm.weight", "model.layers.48.enorm.weight", "model.layers.46", "model.layers.4",
        "model.layers.x.weight", "layers.46.weight", "model.norm.weight"})
    EXPECT_FALSE(manifest.is_in_prediction_layer(name)) << name;
}

TEST(ParameterManifest, refuses_a_name_twice) {
  ParameterManifest manifest = two_tensors();
  EXPECT_THROW(manifest.add(tensor("a", {1})), Error);
}

TEST(ParameterManifest, refuses_a_tie_to_nothing_or_to_another_shape) {
  ParameterManifest manifest = two_tensors();
  EXPECT_THROW(manifest.add(tensor("c", {1}, "nothing")), Error);
  EXPECT_THROW(manifest.add(tensor("c", {1}, "a")), Error);
}

TEST(ParameterManifest, hash_depends_on_every_field_and_on_order) {
  const Digest original = two_tensors().structure_hash();
  EXPECT_EQ(original, two_tensors().structure_hash());

  const auto changed = [](auto change) {
    ParameterManifest manifest;
    TensorInfo first = tensor("a", {2, 3});
    change(first);
    manifest.add(first);
    manifest.add(tensor("b", {4}));
    return manifest.structure_hash();
  };
  EXPECT_NE(original, changed([](TensorInfo& t) { t.name = std::string("z"); }));
  EXPECT_NE(original, changed([](TensorInfo& t) { t.shape = {3, 2}; }));
  EXPECT_NE(original, changed([](TensorInfo& t) { t.dtype = DType::kFloat32; }));
  EXPECT_NE(original, changed([](TensorInfo& t) { t.role = Role::kNorm; }));
  EXPECT_NE(original, changed([](TensorInfo& t) { t.layer = 7; }));
  EXPECT_NE(original, changed([](TensorInfo& t) { t.kind = TensorKind::kPersistentBuffer; }));

  ParameterManifest swapped;
  swapped.add(tensor("b", {4}));
  swapped.add(tensor("a", {2, 3}));
  EXPECT_NE(original, swapped.structure_hash());
}

}  // namespace
}  // namespace sluice
