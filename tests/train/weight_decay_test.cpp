// Which weights decay: those that transformers' Trainer lets decay, by tests/fixtures/decayed.json, which
// make_decayed.py there writes, but for vectors.

#include "data/share_of.hpp"
#include "generate/loaded_model.hpp"
#include "generate/reference.hpp"
#include "support/mpi_test.hpp"
#include "support/source_folder.hpp"
#include "train/trainer.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace sluice {
namespace {

using nlohmann::json;

constexpr std::int64_t kLength = 8;
constexpr double kRate = 1e-3, kDecay = 100;

const json& decayed() {
  static const json all = json::parse(std::ifstream(fixture_folder() / "decayed.json")).at("models");
  return all;
}

std::vector<std::string> models_that_decay() {
  std::vector<std::string> names;
  for (const auto& [name, tensors] : decayed().items()) names.push_back(name);
  return names;
}

Batch some_tokens(const ModelConfig& model) {
  Batch batch{3, kLength};
  for (std::int64_t i = 0; i < batch.sequences * (kLength + 1); ++i)
    batch.ids.push_back((i * i + 5 * i) % model.vocab_size);
  batch.global_targets = count_targets(batch);
  return batch;
}

/// A model of tests/fixtures, its weights after one step.
class Stepped {
 public:
  Stepped(const std::string& name, OptimizerSettings optimizer, double decay)
      : model_(test::test_world(), test::fixture(name), test::test_world().size(), kStateBlock) {
    optimizer.weight_decay = decay;
    const TrainerOptions options{
        .sequence_length = kLength, .train = {.batch_sequences = 3}, .optimizer = optimizer};
    const ModelConfig& config = model_.description.config;
    Trainer trainer(test::test_world(), config, manifest(), model_.weights, options);
    if (decay != 0) before_.assign(values().begin(), values().end());
    trainer.step(1, test::share_of(some_tokens(config), test::test_world()), kRate);
  }

  [[nodiscard]] const ParameterManifest& manifest() const { return model_.description.manifest; }
  [[nodiscard]] const test::LoadedModel& model() const { return model_; }
  /// Weights that this rank owns, in the order of its arena.
  [[nodiscard]] std::span<const float> values() const {
    return {reinterpret_cast<const float*>(model_.weights.data()),
            static_cast<std::size_t>(model_.plan.arena_elements(test::test_world().rank()))};
  }
  /// The same before the step, of one with decay.
  [[nodiscard]] const std::vector<float>& before() const { return before_; }

 private:
  test::LoadedModel model_;
  std::vector<float> before_;
};

/// Holds what this rank owns of each tensor after a step with decay and without.
void expect_decay_of_listed_matrices(const std::string& name, const OptimizerSettings& optimizer) {
  const Stepped without(name, optimizer, 0), with(name, optimizer, kDecay);
  const auto listed = decayed().at(name).get<std::set<std::string>>();
  const ParameterManifest& manifest = with.manifest();
  for (const int tensor : manifest.stored_tensors()) {
    const TensorInfo& info = manifest[tensor];
    SCOPED_TRACE(info.name);
    // Vectors have none here, whatever their dimensions: the reference library lists sinks and A_log, whose names say
    // neither bias nor norm.
    const bool is_matrix = info.shape.size() > 1 && info.kind == TensorKind::kParameter;
    const double share = listed.contains(info.name) && is_matrix ? kRate * kDecay : 0;
    with.model().plan.owned_runs(tensor, test::test_world().rank(), [&](const ShardPlan::OwnedRun& run) {
      for (auto i = static_cast<std::size_t>(run.arena_begin), end = i + static_cast<std::size_t>(run.count);
           i < end; ++i)
        ASSERT_NEAR(without.values()[i] - with.values()[i], share * with.before()[i], 1e-6);
    });
  }
}

class WeightDecayOfModel : public testing::TestWithParam<std::string> {};

TEST_P(WeightDecayOfModel, is_rate_times_decay_times_weight_for_matrices_that_transformers_lists) {
  expect_decay_of_listed_matrices(GetParam(), {.max_grad_norm = 0});
}

INSTANTIATE_TEST_SUITE_P(Models, WeightDecayOfModel, testing::ValuesIn(models_that_decay()),
                         test::name_of_model);

TEST(WeightDecay, leaves_biases_of_experts_alone_in_every_mode) {
  for (const OptimizerSettings& optimizer :
       {OptimizerSettings{.max_grad_norm = 0.5, .clip = ClipRule::kUnit, .state = StateFormat::kInt8},
        OptimizerSettings{
            .kind = OptimizerKind::kLion, .max_grad_norm = 0, .gradients = GradientMode::kRelease},
        OptimizerSettings{
            .kind = OptimizerKind::kAdafactor, .max_grad_norm = 0, .state = StateFormat::kFactored}})
    expect_decay_of_listed_matrices("gpt_oss-tiny", optimizer);
}

}  // namespace
}  // namespace sluice
