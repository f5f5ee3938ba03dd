#include "model/architecture.hpp"
#include "model/blocks/experts.hpp"
#include "model/blocks/layer_blocks.hpp"
#include "model/blocks/norms.hpp"
#include "model/blocks/router.hpp"
#include "model/blocks/shared_expert.hpp"
#include "model/config_text.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace sluice {
namespace {

using nlohmann::json;

/// A layer with a delta net, then one with full attention; experts and a shared one in both.
ModelDescription hybrid() {
  return describe_model_text(test::config_with(test::hybrid_changes()), "config.json", DType::kBFloat16);
}

std::vector<std::string> names_of(const std::vector<BlockTensor>& tensors) {
  std::vector<std::string> names;
  for (const BlockTensor& tensor : tensors) names.emplace_back(tensor.name);
  return names;
}

constexpr PassSize kPass{
    .sequences = 2, .length = 100, .element_bytes = 2, .group_tokens = 600, .threads = 1};

TEST(Blocks, each_kind_has_a_description) {
  for (const AttentionKind kind : {AttentionKind::kFull, AttentionKind::kLinear})
    EXPECT_EQ(std::get<AttentionKind>(block_of(kind).kind), kind);
  for (const MlpKind kind : {MlpKind::kDense, MlpKind::kMoe})
    EXPECT_EQ(std::get<MlpKind>(block_of(kind).kind), kind);
}

TEST(Blocks, a_layer_holds_the_tensors_of_its_blocks_and_norms) {
  const ModelDescription model = hybrid();
  for (std::size_t layer = 0; layer < 2; ++layer) {
    std::vector<std::string> expected, found;
    for (const auto& tensors : {block_of(model.config.attention[layer]).tensors(model.config),
                                block_of(model.config.layers[layer]).tensors(model.config),
                                blocks::norms::layer_tensors(model.config, static_cast<int>(layer))})
      for (const BlockTensor& tensor : tensors)
        expected.push_back(layer_tensor_name(static_cast<int>(layer), tensor.name));
    for (const TensorInfo& tensor : model.manifest.tensors())
      if (tensor.layer == static_cast<int>(layer)) found.push_back(tensor.name);
    EXPECT_EQ(found, expected);
  }
}

TEST(Blocks, a_layer_may_be_its_mixer_alone_or_its_mlp_alone) {
  ModelConfig config = hybrid().config;
  config.layers[0] = MlpKind::kNone;
  config.attention[1] = AttentionKind::kNone;
  std::vector<std::string> mixer = names_of(block_of(AttentionKind::kLinear).tensors(config)),
                           mlp = names_of(block_of(MlpKind::kMoe).tensors(config));
  mixer.emplace_back(blocks::norms::kInput);
  mlp.emplace_back(blocks::norms::kPostAttention);
  EXPECT_EQ(names_of(layer_tensors(config, 0)), mixer);
  EXPECT_EQ(names_of(layer_tensors(config, 1)), mlp);
  EXPECT_EQ(layer_activations(config, 0, kPass).mlp.kept, 0);
  EXPECT_EQ(layer_activations(config, 1, kPass).mixer.kept, 0);
  EXPECT_EQ(layer_cache(config, 1, 2).position_bytes + layer_cache(config, 1, 2).sequence_bytes, 0);
  EXPECT_EQ(config.moe_layer_count(), 1);
  EXPECT_EQ(config.moe_layer(0), 1);
}

TEST(Blocks, count_the_layers_that_have_them) {
  const ModelConfig config = hybrid().config;
  EXPECT_EQ(block_of(AttentionKind::kFull).count_in(config), 1);
  EXPECT_EQ(block_of(AttentionKind::kLinear).count_in(config), 1);
  EXPECT_EQ(block_of(MlpKind::kDense).count_in(config), 0);
  EXPECT_EQ(block_of(MlpKind::kMoe).count_in(config), 2);
}

TEST(Blocks, experts_stand_where_the_module_tree_has_them) {
  ModelConfig config = hybrid().config;
  const std::string router(blocks::router::weight_name(config));
  EXPECT_EQ(names_of(block_of(MlpKind::kMoe).tensors(config)).front(), router);
  config.experts_before_router = true;
  EXPECT_EQ(names_of(block_of(MlpKind::kMoe).tensors(config))[2], router);
}

TEST(Blocks, a_mixture_takes_what_its_parts_take) {
  ModelConfig config = hybrid().config;
  const auto mixture = [&] { return block_of(MlpKind::kMoe).activations(config, kPass); };
  const BlockActivations all = mixture(), shared = blocks::shared_expert::activations(config);
  config.shared_expert_intermediate_size = 0;
  EXPECT_EQ(mixture().kept, all.kept - shared.kept);
  EXPECT_EQ(mixture().passed, all.passed - shared.passed);
  EXPECT_EQ(all.choice_bytes, 2 * 8) << "an index for each of two experts";
  EXPECT_EQ(all.working_bytes, blocks::experts::activations(config, kPass).working_bytes);
}

TEST(Blocks, without_gates_have_one_projection_where_a_swiglu_has_two) {
  ModelConfig config = hybrid().config;
  const auto tensors = [&] { return block_of(MlpKind::kMoe).tensors(config); };
  const std::size_t gated = tensors().size();
  const BlockActivations with = block_of(MlpKind::kMoe).activations(config, kPass);
  config.mlp_activation = MlpActivation::kSquaredRelu;
  EXPECT_EQ(tensors().size(), gated - 1) << "the shared expert's gate_proj";
  const std::vector<BlockTensor> experts = blocks::experts::tensors(config);
  EXPECT_EQ(experts.front().name, "mlp.experts.up_proj");
  EXPECT_EQ(experts.front().shape[1], config.expert_intermediate_size);
  const BlockActivations without = block_of(MlpKind::kMoe).activations(config, kPass);
  EXPECT_EQ(with.kept - without.kept, config.shared_expert_intermediate_size);
  EXPECT_LT(without.working_bytes, with.working_bytes);
}

TEST(Blocks, experts_of_a_latent_width_work_in_it_and_keep_their_tokens_on_both_sides) {
  ModelConfig config = hybrid().config;
  const BlockActivations usual = blocks::experts::activations(config, kPass);
  config.expert_latent_size = config.hidden_size / 2;
  const BlockActivations latent = blocks::experts::activations(config, kPass);
  EXPECT_LT(latent.working_bytes, usual.working_bytes);
  EXPECT_EQ(latent.kept, usual.kept + config.hidden_size);
  EXPECT_EQ(blocks::experts::tensors(config).front().shape[2], config.expert_latent_size);
}

TEST(Blocks, a_router_with_a_z_loss_keeps_its_float32_logits) {
  const ModelConfig config = hybrid().config;
  PassSize pass = kPass;
  const BlockActivations without = blocks::router::activations(config, pass);
  pass.keeps_logits = true;
  const BlockActivations with = blocks::router::activations(config, pass);
  EXPECT_EQ((with.kept - without.kept) * pass.element_bytes, 4 * config.experts);
  EXPECT_EQ((with.passed - without.passed) * pass.element_bytes, 4 * config.experts);
}

TEST(Blocks, what_a_mixer_works_in_grows_with_sequences_and_not_with_a_delta_nets_length) {
  const ModelConfig config = hybrid().config;
  const auto working = [&](AttentionKind kind, std::int64_t sequences, std::int64_t length) {
    PassSize pass = kPass;
    pass.sequences = sequences;
    pass.length = length;
    pass.threads = 8;
    return block_of(kind).activations(config, pass).working_bytes;
  };
  EXPECT_EQ(working(AttentionKind::kLinear, 2, 100), working(AttentionKind::kLinear, 2, 1000));
  EXPECT_EQ(2 * working(AttentionKind::kLinear, 2, 100), working(AttentionKind::kLinear, 4, 100));
  EXPECT_GT(working(AttentionKind::kFull, 2, 1000), working(AttentionKind::kFull, 2, 100));
  EXPECT_GT(working(AttentionKind::kFull, 3, 100), working(AttentionKind::kFull, 2, 100));
}

}  // namespace
}  // namespace sluice
