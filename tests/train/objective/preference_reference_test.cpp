// Steps on pairs against TRL's DPOTrainer and ORPOTrainer: tests/fixtures/preferences/, which
// make_preferences.py there writes.

#include "adapter/adapter_load.hpp"
#include "data/share_of.hpp"
#include "io/hdf5.hpp"
#include "load/checkpoint_load.hpp"
#include "model/architecture.hpp"
#include "shard/shard_values.hpp"
#include "support/mpi_test.hpp"
#include "support/source_folder.hpp"
#include "train/trainer.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;
using test::test_world;

constexpr double kRate = 2e-3;
constexpr double kRelative = 1e-5;
constexpr double kLaterSteps = 1e-4;  ///< relative tolerance of norms, and of losses after an update

const fs::path kFixtures = fixture_folder();
const ReferenceSettings kBase{PreferenceReference::kBase};

const std::map<std::string, PreferSettings>& objectives() {
  static const std::map<std::string, PreferSettings> all{
      {"sigmoid", {.beta = 0.5, .reference = kBase}},
      {"sigmoid_norm", {.loss = PreferenceLoss::kSigmoidNorm, .beta = 2, .reference = kBase}},
      {"ipo", {.loss = PreferenceLoss::kIpo, .beta = 0.4, .reference = kBase}},
      {"hinge", {.loss = PreferenceLoss::kHinge, .beta = 0.05, .reference = kBase}},
      {"sft", {.beta = 0.5, .sft_weight = 0.7, .reference = kBase}},
      {"orpo", {.loss = PreferenceLoss::kOrpo, .beta = 0.8}},
      {"whole", {.beta = 0.5, .reference = {PreferenceReference::kStart}}},
  };
  return all;
}

/// A model of tests/fixtures, with its adapter unless the objective is to change all weights.
struct Model {
  Model(const std::string& base, const std::string& adapter_name, int expert_parallel)
      : directory(kFixtures / base), description(describe_model(directory, DType::kFloat32)) {
    if (!adapter_name.empty()) {
      adapter = read_peft_adapter(kFixtures / "lora" / adapter_name, description.manifest);
      add_adapters(description.manifest, adapter->adapters);
    }
    keys.emplace(description.manifest);
    layouts = make_unit_layouts(description.manifest);
    plan.emplace(layouts, ParallelDims{.world = test_world().size(), .expert_parallel = expert_parallel});
    weights.emplace(*plan, test_world().rank(), DType::kFloat32, MemoryKind::kPrivate, "weights");
    const LoadRequest request{
        .directory = directory,
        .keys = *keys,
        .shards = *plan,
        .options = {.arena = DType::kFloat32, .readers = ReaderAssignment::rank0(test_world().size())}};
    load_checkpoint(test_world(), plan_load(test_world(), request), directory, &*weights, {});
    if (adapter) load_adapter(test_world(), *adapter, description.manifest, *weights);
  }

  fs::path directory;
  ModelDescription description;
  std::optional<PeftAdapter> adapter;
  std::optional<KeyMap> keys;
  UnitLayouts layouts;
  std::optional<ShardPlan> plan;
  std::optional<ShardArena> weights;
};

/// The pairs of a fixture, `in_each` of them in each sequence.
Batch batch_of(const hdf5::File& file, std::int64_t in_each) {
  const auto tokens = file.dataset("tokens").read<std::int64_t>();
  auto starts = file.dataset("document_starts").read<std::int64_t>();
  const auto mask = file.dataset("loss_mask").read<std::int64_t>();
  const auto pairs = file.dataset("pairs").read<std::int64_t>();
  starts.push_back(std::ssize(tokens));
  Batch batch{std::ssize(pairs) / 2 / in_each, 32 * in_each};
  for (std::int64_t sequence = 0; sequence < batch.sequences; ++sequence) {
    const auto begin = std::ssize(batch.ids);
    const auto add = [&](std::int64_t document) {
      const auto first = starts[static_cast<std::size_t>(document)];
      const auto end = starts[static_cast<std::size_t>(document) + 1], place = std::ssize(batch.ids) - begin;
      for (std::int64_t token = first; token < end; ++token) {
        batch.ids.push_back(tokens[static_cast<std::size_t>(token)]);
        batch.marks.push_back(token == first                               ? TokenMark::kBegins
                              : mask[static_cast<std::size_t>(token)] != 0 ? TokenMark::kInside
                                                                           : TokenMark::kMasked);
      }
      return Range{place, place + end - first - 1};
    };
    for (std::int64_t i = sequence * in_each; i < (sequence + 1) * in_each; ++i) {
      const Range chosen = add(pairs[static_cast<std::size_t>(2 * i)]);
      const Range rejected = add(pairs[static_cast<std::size_t>(2 * i) + 1]);
      batch.pairs.push_back({.sequence = sequence, .chosen = chosen, .rejected = rejected});
    }
    batch.ids.resize(static_cast<std::size_t>(begin + batch.length + 1), 0);
    batch.marks.resize(batch.ids.size(), TokenMark::kPadding);
  }
  batch.global_targets = count_targets(batch);
  batch.global_padding = count_padding(batch);
  batch.global_pairs = std::ssize(batch.pairs);
  return batch;
}

/// How ranks and sequences share the work.
struct Layout {
  std::int64_t pairs_in_each = 1;  ///< pairs in each sequence
  std::int64_t micro_batch_sequences = 1;
  bool gathers_experts = false;
  GradientMode gradients = GradientMode::kFloat32;
  std::size_t steps = 8;  ///< most steps that are made
};

TrainerOptions options_of(const Batch& batch, const PreferSettings& settings, const Layout& layout) {
  return {.sequence_length = batch.length,
          .train = {.batch_sequences = batch.sequences,
                    .micro_batch_sequences = layout.micro_batch_sequences,
                    .aux_loss_coefficient = 0},
          .optimizer = {.betas = {0.9, 0.95},
                        .eps = 1e-8,
                        .weight_decay = 0.1,
                        .max_grad_norm = 1,
                        .gradients = layout.gradients},
          .prefer = settings};
}

/// Norm of a tensor over all ranks, and its product with cos(0), cos(1), ...
std::array<double, 2> along(const ShardArena& values, int tensor) {
  std::array<double, 2> sums{};
  std::vector<float> part;
  values.plan().owned_runs(tensor, values.rank(), [&](const ShardPlan::OwnedRun& run) {
    part.resize(static_cast<std::size_t>(run.count));
    ArenaValues(values).read(run.arena_begin, run.count, DType::kFloat32,
                             reinterpret_cast<std::byte*>(part.data()));
    for (std::int64_t i = 0; i < run.count; ++i) {
      const double value = part[static_cast<std::size_t>(i)];
      sums[0] += value * value;
      sums[1] += value * std::cos(static_cast<double>(run.tensor_begin + i));
    }
  });
  test_world().all_reduce_sum(std::span<double>(sums));
  return {std::sqrt(sums[0]), sums[1]};
}

class PreferenceReference : public testing::TestWithParam<std::string> {
 protected:
  void expect_gradients(const std::string& objective, const Model& model, const Trainer& trainer,
                        double norm) {
    int compared = 0;
    for (const int tensor : model.description.manifest.stored_tensors()) {
      const std::string name =
          model.description.manifest.wrapped_name(model.description.manifest[tensor].name);
      const std::string path = fmt::format("{}/gradients/{}", objective, name);
      if (!trainer.gradients().holds(model.layouts.unit_of(tensor)) || !file_.exists(path)) continue;
      const auto expected = file_.dataset(path).read<double>();
      const std::array<double, 2> found = along(trainer.gradients(), tensor);
      EXPECT_NEAR(found[0], expected[0], 1e-4 * expected[0] + 2e-7 * norm) << name;
      EXPECT_NEAR(found[1], expected[1], 1e-4 * expected[0] + 2e-7 * norm) << name;
      ++compared;
    }
    EXPECT_EQ(compared, std::ssize(file_.children(objective + "/gradients")));
  }

  /// Gives pairs the log-probabilities under the reference that TRL's trainer had.
  void set_reference(const std::string& objective, Batch& batch) {
    const auto reference = file_.dataset(objective + "/reference").read<double>();
    for (std::size_t pair = 0; pair < batch.pairs.size(); ++pair) {
      batch.pairs[pair].chosen_reference = reference[2 * pair];
      batch.pairs[pair].rejected_reference = reference[2 * pair + 1];
    }
  }

  void expect_steps(const std::string& objective, const Layout& layout) {
    SCOPED_TRACE(testing::Message() << objective << ", " << layout.pairs_in_each << " pairs a sequence, "
                                    << layout.micro_batch_sequences << " sequences a pass");
    const PreferSettings& settings = objectives().at(objective);
    const bool is_whole = !settings.walks_reference();  // whether all weights are trained
    Model model(base_, is_whole ? "" : GetParam(), layout.gathers_experts ? 1 : test_world().size());
    Batch batch = batch_of(file_, layout.pairs_in_each);
    if (settings.has_reference() && is_whole) set_reference(objective, batch);
    const Batch share = test::share_of(batch, test_world());
    Trainer trainer(test_world(), model.description.config, model.description.manifest, *model.weights,
                    options_of(batch, settings, layout));
    const auto of_steps = [&](const std::string& name) {
      return file_.dataset(objective + "/train/" + name).read<double>();
    };
    const auto losses = of_steps("loss");
    for (std::size_t step = 0; step < std::min(losses.size(), layout.steps); ++step) {
      const StepMetrics found = trainer.step(static_cast<std::int64_t>(step) + 1, share, kRate);
      const double relative = step == 0 ? kRelative : kLaterSteps;
      const auto expect_near = [&](double value, const std::string& name) {
        const double expected = of_steps(name)[step];
        EXPECT_NEAR(value, expected, relative * std::max(1.0, std::abs(expected)))
            << name << ", step " << step;
      };
      ASSERT_TRUE(found.preferences);
      expect_near(found.loss, "loss");
      EXPECT_NEAR(found.grad_norm, of_steps("grad_norm")[step], 1e-4 * of_steps("grad_norm")[step]);
      expect_near(found.preferences->chosen_reward, "rewards/chosen");
      expect_near(found.preferences->rejected_reward, "rewards/rejected");
      expect_near(found.preferences->margin(), "rewards/margins");
      if (!is_whole || step > 0)  // at first its answers are as good, and rounding tells which is better
        expect_near(found.preferences->accuracy, "rewards/accuracies");
      expect_near(found.preferences->chosen_log_prob, "logps/chosen");
      expect_near(found.preferences->rejected_log_prob, "logps/rejected");
      if (step == 0 && layout.gradients == GradientMode::kFloat32)
        expect_gradients(objective, model, trainer, found.grad_norm);
    }
  }

  const hdf5::File file_ = hdf5::File::open(kFixtures / "preferences" / (GetParam() + ".h5"));
  const std::string base_ = file_.text_attribute("/", "base");
};

TEST_P(PreferenceReference, every_objective_has_the_numbers_of_trl) {
  for (const auto& [objective, settings] : objectives()) expect_steps(objective, {});
}

TEST_P(PreferenceReference, packed_pairs_have_the_numbers_of_pairs_alone) {
  expect_steps("sigmoid",
               {.pairs_in_each = 2, .micro_batch_sequences = 2, .gathers_experts = true, .steps = 3});
  expect_steps(
      "orpo",
      {.pairs_in_each = 3, .micro_batch_sequences = 1, .gradients = GradientMode::kRelease, .steps = 3});
  expect_steps("whole",
               {.pairs_in_each = 2, .micro_batch_sequences = 1, .gathers_experts = true, .steps = 3});
  expect_steps(
      "ipo",
      {.pairs_in_each = 2, .micro_batch_sequences = 1, .gradients = GradientMode::kRelease, .steps = 3});
}

INSTANTIATE_TEST_SUITE_P(Adapters, PreferenceReference,
                         testing::Values("qwen3-moe-down", "qwen3_5-moe", "deepseek_v3"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace sluice
