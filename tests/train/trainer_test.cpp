#include "train/trainer.hpp"

#include "base/fault.hpp"
#include "data/share_of.hpp"
#include "model/small_model.hpp"
#include "plan/exchange_limits.hpp"
#include "plan/offload.hpp"
#include "plan/optimizer_bytes.hpp"
#include "plan/step_traffic.hpp"
#include "shard/arena_access.hpp"
#include "support/expect_error.hpp"
#include "support/mpi_test.hpp"
#include "support/temporary_directory.hpp"
#include "train/guard/rank_comparison.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {
namespace {

constexpr std::int64_t kSequenceLength = 7;
constexpr double kRate = 1e-2;

TrainerOptions small_job(std::int64_t batch_sequences, Recompute recompute = Recompute::kLayer) {
  return {.sequence_length = kSequenceLength,
          .train = {.batch_sequences = batch_sequences,
                    .micro_batch_sequences = 2,
                    .recompute = recompute,
                    .aux_loss_coefficient = 0.1,
                    .router_z_loss = 0.05},
          // Updates that depend smoothly on gradients: rounding stays rounding.
          .optimizer = {.betas = {0.9, 0.95}, .eps = 0.1, .weight_decay = 0.1, .max_grad_norm = 1}};
}

/// A rank's part of a batch that is the same for any number of ranks.
Batch share_of_batch(const TrainerOptions& job, const Communicator& comm, std::int64_t step) {
  Batch batch{job.train.batch_sequences, kSequenceLength};
  for (std::int64_t i = 0; i < batch.sequences * (kSequenceLength + 1); ++i)
    batch.ids.push_back((i * i + 5 * i + 11 * step) % 29);
  batch.global_targets = count_targets(batch);
  return test::share_of(batch, comm);
}

/// A trainer on the ranks of a communicator, with its weights.
class Training {
 public:
  /// With `offload_directory` all experts, and their state, lie on a disk there, of ranks that have one.
  Training(Communicator& comm, const test::SmallModel& model, const TrainerOptions& job,
           int expert_parallel = 1, const std::filesystem::path& offload_directory = {}, bool has_disk = true,
           FrozenUnits frozen = FrozenUnits::kGathered, int replicas = 1)
      : comm_(comm),
        job_(job),
        plan_(model.layouts,
              {.world = comm.size() / replicas, .expert_parallel = expert_parallel, .replicas = replicas},
              offload_directory.empty() ? ShardAlignment::kLines : ShardAlignment::kPages, frozen),
        weights_(plan_, plan_.dims().member(comm.rank()), DType::kFloat32, MemoryKind::kPrivate, "weights"),
        trainer_(comm, model.description.config, model.description.manifest,
                 drawn(model, has_disk ? offload_directory : std::filesystem::path()), job_) {}

  /// A step that leaves the weights as they are.
  StepMetrics gradients_of(const Batch& whole) {
    return trainer_.step(1, test::share_of(whole, comm_), /*learning_rate=*/0);
  }
  void require_finite_weights() { trainer_.require_finite_weights(); }
  /// From 0.
  StepMetrics step(std::int64_t index, double largest_loss = std::numeric_limits<double>::infinity(),
                   double rate = kRate) {
    return trainer_.step(index + 1, share_of_batch(job_, comm_, index), rate, largest_loss);
  }
  StepMetrics step_on(const Batch& whole) { return trainer_.step(2, test::share_of(whole, comm_), kRate); }
  [[nodiscard]] ShardArena& weights() { return weights_; }
  [[nodiscard]] std::int64_t disk_reads() const { return weights_.paged()->file().read_bytes(); }
  /// Routers find all experts equally probable.
  void silence_routers(const ParameterManifest& manifest) {
    for (int tensor = 0; tensor < static_cast<int>(manifest.tensors().size()); ++tensor) {
      if (manifest[tensor].role != Role::kRouter) continue;
      plan_.owned_runs(tensor, comm_.rank(), [&](const ShardPlan::OwnedRun& run) {
        std::fill_n(reinterpret_cast<float*>(weights_.data()) + run.arena_begin, run.count, 0.0F);
      });
    }
  }
  [[nodiscard]] const ShardArena& gradients() const { return trainer_.gradients(); }
  void require_same_weights_in_sets() {
    sluice::require_same_weights_in_sets(trainer_.binder().mesh().sets(), weights_, 1);
  }

 private:
  ShardArena& drawn(const test::SmallModel& model, const std::filesystem::path& directory) {
    if (!directory.empty()) page_to(model.description.manifest, directory);
    initialize_shards(weights_, model.description.manifest, 0.2F, 7);
    return weights_;
  }
  void page_to(const ParameterManifest& manifest, const std::filesystem::path& directory) {
    const OptimizerBytes state(manifest, plan_, job_.optimizer.mode(), DType::kFloat32);
    const Workload work{.dtype = DType::kFloat32, .optimizer = job_.optimizer.mode()};
    const OffloadPlan plan = plan_offload(plan_, state.of_units(comm_.rank()), comm_.rank(), work,
                                          std::numeric_limits<std::int64_t>::max());
    weights_.page_to(plan, directory, /*limit_seconds=*/60);
  }

  Communicator& comm_;
  const TrainerOptions job_;
  const ShardPlan plan_;
  ShardArena weights_;
  Trainer trainer_;
};

/// `whole` holds the elements of `part`, and perhaps others. Larger ones may differ by more.
void expect_same_elements(const ShardArena& part, const ShardArena& whole, float tolerance) {
  for (int unit = 0; unit < static_cast<int>(part.plan().layouts().units.size()); ++unit) {
    const Range owned = part.plan().owned(unit, part.rank());
    const auto* found = reinterpret_cast<const float*>(part.unit_data(unit));
    const auto* expected = reinterpret_cast<const float*>(whole.unit_data(unit)) + owned.begin -
                           whole.plan().owned(unit, whole.rank()).begin;
    for (std::int64_t i = 0; i < owned.count(); ++i)
      ASSERT_NEAR(found[i], expected[i], tolerance * std::max(1.0F, 4 * std::abs(expected[i])))
          << "unit " << unit << ", element " << owned.begin + i;
  }
}

void expect_same_metrics(const StepMetrics& found, const StepMetrics& expected) {
  EXPECT_NEAR(found.loss, expected.loss, 1e-5);
  EXPECT_NEAR(found.grad_norm, expected.grad_norm, 1e-5 * expected.grad_norm);
  EXPECT_NEAR(found.aux_loss, expected.aux_loss, 1e-5);
  EXPECT_NEAR(found.z_loss, expected.z_loss, 1e-6 * expected.z_loss);
  EXPECT_EQ(found.expert_tokens, expected.expert_tokens);
  EXPECT_EQ(found.tokens, expected.tokens);
}

/// The ranks together, experts gathered, routed, or both; and each rank alone with all the work: all must do
/// the same.
void expect_same_for_any_ranks(const nlohmann::json& changes, const TrainerOptions& job,
                               int expert_parallel) {
  SCOPED_TRACE(testing::Message() << "expert_parallel " << expert_parallel);
  const test::SmallModel model(changes);
  const std::unique_ptr<Communicator> alone = test::test_world().split(test::test_world().rank(), 0);
  ASSERT_EQ(alone->size(), 1);
  Training single(*alone, model, job);
  Training shared(test::test_world(), model, job, expert_parallel);
  for (std::int64_t step = 0; step < 3; ++step) {
    const StepMetrics expected = single.step(step);
    const StepMetrics found = shared.step(step);
    ASSERT_NO_FATAL_FAILURE(expect_same_metrics(found, expected));
    // After the first step at weights that differ already.
    expect_same_elements(shared.gradients(), single.gradients(), step == 0 ? 1e-5F : 2e-5F);
    expect_same_elements(shared.weights(), single.weights(), 3e-5F);
  }
}

void expect_same_for_any_rank_count(const nlohmann::json& changes, const TrainerOptions& job) {
  const int ranks = test::test_world().size();
  for (int expert_parallel = 1; expert_parallel <= ranks; ++expert_parallel)
    if (ranks % expert_parallel == 0) expect_same_for_any_ranks(changes, job, expert_parallel);
}

TEST(Trainer, ranks_do_together_what_one_does_alone) {
  expect_same_for_any_rank_count(nlohmann::json::object(), small_job(5));
}

/// Calls visit(replicas, expert_parallel) for every division of the ranks into more than one set.
template <class Visit>
void for_each_division(Visit visit) {
  const int ranks = test::test_world().size();
  for (int replicas = 2; replicas <= ranks; ++replicas)
    for (int expert_parallel = 1; expert_parallel <= ranks / replicas; ++expert_parallel)
      if (ranks % replicas == 0 && ranks / replicas % expert_parallel == 0) visit(replicas, expert_parallel);
}

TEST(Trainer, several_copies_of_the_model_do_together_what_one_does_and_stay_alike) {
  for (const nlohmann::json& changes :
       {nlohmann::json::object(), nlohmann::json{{"tie_word_embeddings", true}}, test::hybrid_changes()})
    for (const GradientMode gradients : {GradientMode::kFloat32, GradientMode::kRelease})
      for_each_division([&](int replicas, int expert_parallel) {
        SCOPED_TRACE(testing::Message() << replicas << " copies, expert_parallel " << expert_parallel);
        const test::SmallModel model(changes);
        const std::unique_ptr<Communicator> alone = test::test_world().split(test::test_world().rank(), 0);
        TrainerOptions job = small_job(gradients == GradientMode::kRelease ? 1 : 5);
        job.optimizer.gradients = gradients;
        Training single(*alone, model, job);
        Training copies(test::test_world(), model, job, expert_parallel, {}, /*has_disk=*/true,
                        FrozenUnits::kGathered, replicas);
        for (std::int64_t step = 0; step < 3; ++step) {
          const StepMetrics expected = single.step(step);
          ASSERT_NO_FATAL_FAILURE(expect_same_metrics(copies.step(step), expected));
          expect_same_elements(copies.weights(), single.weights(), 3e-5F);
          copies.require_same_weights_in_sets();
        }
      });
}

/// Ranks that have embedding and head between them, divided as `dims` say, do what one does that has both whole.
void expect_same_by_rows(const nlohmann::json& changes, const std::vector<std::string>& adapted,
                         const TrainerOptions& job, const ParallelDims& dims) {
  SCOPED_TRACE(testing::Message() << changes << dims.replicas << " copies, expert_parallel "
                                  << dims.expert_parallel);
  const test::SmallModel model(changes, DType::kFloat32, adapted, Vocabulary::kByRows);
  const std::unique_ptr<Communicator> alone = test::test_world().split(test::test_world().rank(), 0);
  TrainerOptions whole =
      job;  // one rank has units by rows apart, of which a stage may have only one to release
  whole.optimizer.gradients = GradientMode::kFloat32;
  Training single(*alone, model, whole);
  Training shared(test::test_world(), model, job, dims.expert_parallel, {}, /*has_disk=*/true,
                  FrozenUnits::kGathered, dims.replicas);
  for (std::int64_t step = 0; step < 3; ++step) {
    const StepMetrics expected = single.step(step);
    ASSERT_NO_FATAL_FAILURE(expect_same_metrics(shared.step(step), expected));
    expect_same_elements(shared.weights(), single.weights(), 3e-5F);
    shared.require_same_weights_in_sets();
  }
}

TEST(Trainer, ranks_that_have_the_vocabulary_between_them_do_together_what_one_does_alone) {
  const int ranks = test::test_world().size();
  const nlohmann::json tied{{"tie_word_embeddings", true}};
  for (const nlohmann::json& changes : {nlohmann::json::object(), tied, test::hybrid_changes()})
    for (const std::int64_t sequences : {1, 5}) {
      expect_same_by_rows(changes, {}, small_job(sequences), {.world = ranks, .expert_parallel = ranks});
      TrainerOptions releases = small_job(sequences);
      if (ranks > 1) releases.optimizer.gradients = GradientMode::kRelease;
      expect_same_by_rows(changes, {}, releases, {.world = ranks});
    }
  for_each_division([&](int replicas, int expert_parallel) {
    expect_same_by_rows(tied, {}, small_job(5), {ranks / replicas, expert_parallel, replicas});
    expect_same_by_rows(nlohmann::json::object(), {}, small_job(5),
                        {ranks / replicas, expert_parallel, replicas});
  });
}

TEST(Trainer, ranks_that_have_a_head_with_an_adapter_between_them_do_what_one_does) {
  const int ranks = test::test_world().size();
  for (const std::int64_t sequences : {1, 5})
    expect_same_by_rows(nlohmann::json::object(), {"lm_head.weight", "model.layers.0.mlp.gate.weight"},
                        small_job(sequences), {.world = ranks, .expert_parallel = ranks});
}

TEST(Trainer, copies_of_the_model_with_other_weights_are_told_from_each_other) {
  for_each_division([&](int replicas, int expert_parallel) {
    const test::SmallModel model;
    Training copies(test::test_world(), model, small_job(5), expert_parallel, {}, /*has_disk=*/true,
                    FrozenUnits::kGathered, replicas);
    copies.require_same_weights_in_sets();
    if (test::test_world().rank() == test::test_world().size() - 1)
      copies.weights().data()[0] ^= std::byte{1};
    test::expect_error(ExitCode::kInternal, {"digest", fmt::format("rank {}", test::test_world().size() - 1)},
                       [&] { copies.require_same_weights_in_sets(); });
  });
}

TEST(Trainer, the_same_with_a_tied_head_and_dense_layers_between) {
  expect_same_for_any_rank_count(
      {{"tie_word_embeddings", true}, {"num_hidden_layers", 3}, {"mlp_only_layers", {1}}}, small_job(5));
}

TEST(Trainer, a_rank_without_sequences_joins_in) {
  expect_same_for_any_rank_count(nlohmann::json::object(), small_job(1));
}

TEST(Trainer, the_same_with_a_shared_expert) {
  expect_same_for_any_rank_count(test::hybrid_changes(), small_job(5));
}

TEST(Trainer, more_ranks_than_experts_leave_some_without) {
  expect_same_for_any_rank_count({{"num_experts", 2}}, small_job(5));
}

TEST(Trainer, the_same_with_so_many_tokens_that_experts_begin_with_those_of_their_rank) {
  TrainerOptions job = small_job(test::test_world().size() * 60);
  job.train.micro_batch_sequences = 60;
  expect_same_for_any_rank_count({{"num_experts", 4}, {"num_experts_per_tok", 4}}, job);
}

TEST(Trainer, one_expert_may_get_everything_and_others_nothing) {
  const int ranks = test::test_world().size();
  const test::SmallModel model({{"num_experts", 6}, {"num_experts_per_tok", 1}});
  Training gathered(test::test_world(), model, small_job(5), 1);
  Training routed(test::test_world(), model, small_job(5), ranks);
  for (Training* training : {&gathered, &routed}) training->silence_routers(model.description.manifest);
  const StepMetrics expected = gathered.step(0);
  const StepMetrics found = routed.step(0);
  EXPECT_EQ(found.expert_tokens[0], 5 * kSequenceLength) << "of equal probabilities the first wins";
  expect_same_metrics(found, expected);
}

TEST(Trainer, what_is_kept_gives_what_is_recomputed) {
  for (const nlohmann::json& changes : {nlohmann::json::object(), test::parallel_changes()}) {
    const test::SmallModel model(changes);
    for (const Recompute recompute : {Recompute::kNone, Recompute::kAll}) {
      Training usual(test::test_world(), model, small_job(5, Recompute::kLayer));
      Training other(test::test_world(), model, small_job(5, recompute));
      for (std::int64_t step = 0; step < 2; ++step) {
        const StepMetrics expected = usual.step(step);
        expect_same_metrics(other.step(step), expected);
        expect_same_elements(other.weights(), usual.weights(), 0);
      }
    }
  }
}

/// A batch whose targets at positions of one parity alone are learnt.
Batch half_masked(const TrainerOptions& job, std::int64_t parity) {
  Batch batch{job.train.batch_sequences, kSequenceLength};
  for (std::int64_t i = 0; i < batch.sequences * (kSequenceLength + 1); ++i) {
    batch.ids.push_back((i * i + 5 * i) % 29);
    batch.marks.push_back(i % 2 == parity ? TokenMark::kInside : TokenMark::kMasked);
  }
  batch.separates_documents = false;
  batch.global_targets = count_targets(batch);
  return batch;
}

/// Calls f(place in the arena, direction) for each element of this rank.
template <class F>
void for_each_direction(const ShardArena& values, F f) {
  const UnitLayouts& layouts = values.plan().layouts();
  for (int unit = 0; unit < static_cast<int>(layouts.units.size()); ++unit) {
    const Range owned = values.plan().owned(unit, values.rank());
    const std::int64_t first = (values.unit_data(unit) - values.data()) / size_of(DType::kFloat32);
    for (std::int64_t i = 0; i < owned.count(); ++i)
      f(first + i, std::sin(static_cast<double>(unit + 1) * static_cast<double>(owned.begin + i)));
  }
}

/// The sum over this rank's elements of their product with a direction, the same for any ranks.
double along(const ShardArena& values) {
  double sum = 0;
  for_each_direction(values, [&](std::int64_t at, double direction) {
    sum += direction * reinterpret_cast<const float*>(values.data())[at];
  });
  test::test_world().all_reduce_sum(std::span(&sum, 1));
  return sum;
}

void move(ShardArena& weights, double distance) {
  for_each_direction(weights, [&](std::int64_t at, double direction) {
    reinterpret_cast<float*>(weights.data())[at] += static_cast<float>(distance * direction);
  });
}

TEST(Trainer, the_gradient_of_the_z_loss_is_what_it_changes_by) {
  // With all experts chosen nothing jumps.
  const test::SmallModel model({{"num_experts", 4}, {"num_experts_per_tok", 4}});
  TrainerOptions job = small_job(5);
  job.train.aux_loss_coefficient = job.train.router_z_loss = 0;
  const Batch batch = half_masked(job, 0);
  Training without(test::test_world(), model, job);
  EXPECT_EQ(without.gradients_of(batch).z_loss, 0);
  job.train.router_z_loss = 2;
  Training with(test::test_world(), model, job);
  with.gradients_of(batch);
  const double expected = (along(with.gradients()) - along(without.gradients())) / 2;

  constexpr double kDistance = 1e-3;
  move(with.weights(), kDistance);
  const double above = with.gradients_of(batch).z_loss;
  move(with.weights(), -2 * kDistance);
  const double found = (above - with.gradients_of(batch).z_loss) / (2 * kDistance);
  EXPECT_GT(std::abs(expected), 0.1);
  EXPECT_NEAR(found, expected, 2e-3 * std::abs(expected));
}

TEST(Trainer, bytes_of_a_step_are_those_of_the_step_alone) {
  const test::SmallModel model;
  std::vector<std::byte> before(1'000'000);
  // A load sends weights in the same way.
  test::test_world().broadcast(before.data(), std::ssize(before), 0).wait();
  Training training(test::test_world(), model, small_job(test::test_world().size()));
  const auto first = static_cast<double>(training.step(0).communicated_bytes);
  EXPECT_NEAR(static_cast<double>(training.step(0).communicated_bytes), first,
              0.01 * first);  // the last sum of a step counts for the next
  EXPECT_EQ(first > 0, test::test_world().size() > 1);
}

/// Bytes that all ranks are planned to send in a step of `job`, without the batch, which tests do not send.
double planned_bytes(const test::SmallModel& model, const TrainerOptions& job, const ParallelDims& dims) {
  const ShardPlan shards(model.layouts, dims);
  Workload work{.dtype = DType::kFloat32,
                .pass_length = job.sequence_length,
                .batch_sequences = job.train.batch_sequences,
                .micro_batch_sequences = job.train.micro_batch_sequences,
                .optimizer = job.optimizer.mode(),
                .backward_passes = job.optimizer.gradients == GradientMode::kRelease ? 2 : 1,
                .has_z_loss = true};
  double bytes = 0;
  for (const StepTraffic& rank :
       plan_step_traffic(model.description.config, model.description.manifest, shards,
                         make_stage_plan(model.layouts, TiedHead::kNo), work, {}))
    bytes += static_cast<double>(rank.all() - rank.batch);
  return bytes;
}

TEST(Trainer, sends_the_bytes_that_are_planned) {
  const test::SmallModel model;
  const int world = test::test_world().size();
  for (const int expert_parallel : {1, world})
    for (const GradientMode gradients : {GradientMode::kFloat32, GradientMode::kRelease}) {
      TrainerOptions job = small_job(3 * world);
      job.optimizer.gradients = gradients;
      Training training(test::test_world(), model, job, expert_parallel);
      static_cast<void>(training.step(0));
      const auto counted = static_cast<double>(training.step(1).communicated_bytes);
      const double planned = planned_bytes(model, job, {.world = world, .expert_parallel = expert_parallel});
      const double tolerance = expert_parallel > kGatheringRanks ? 0.08 : 0.02;
      EXPECT_NEAR(counted, planned, tolerance * planned) << expert_parallel << " " << int(gradients);
    }
}

TEST(Trainer, sends_the_bytes_that_are_planned_where_ranks_have_the_vocabulary_between_them) {
  const test::SmallModel model(nlohmann::json::object(), DType::kFloat32, {}, Vocabulary::kByRows);
  const int world = test::test_world().size();
  for (const std::int64_t sequences : {1, 3 * world})
    for (const GradientMode gradients : {GradientMode::kFloat32, GradientMode::kRelease}) {
      TrainerOptions job = small_job(sequences);
      if (world > 1) job.optimizer.gradients = gradients;
      Training training(test::test_world(), model, job, world);
      static_cast<void>(training.step(0));
      const auto counted = static_cast<double>(training.step(1).communicated_bytes);
      const double planned = planned_bytes(model, job, {.world = world, .expert_parallel = world});
      EXPECT_NEAR(counted, planned, 0.02 * planned) << sequences << " " << int(gradients);
    }
}

TEST(Trainer, sends_the_bytes_that_are_planned_for_several_copies_of_the_model) {
  const test::SmallModel model;
  for_each_division([&](int replicas, int expert_parallel) {
    for (const GradientMode gradients : {GradientMode::kFloat32, GradientMode::kRelease}) {
      const int ranks = test::test_world().size();
      TrainerOptions job = small_job(3 * ranks);
      job.optimizer.gradients = gradients;
      Training training(test::test_world(), model, job, expert_parallel, {}, /*has_disk=*/true,
                        FrozenUnits::kGathered, replicas);
      static_cast<void>(training.step(0));
      const auto counted = static_cast<double>(training.step(1).communicated_bytes);
      const double planned = planned_bytes(model, job, {ranks / replicas, expert_parallel, replicas});
      EXPECT_NEAR(counted, planned, 0.02 * planned)
          << replicas << " " << expert_parallel << " " << int(gradients);
    }
  });
}

TEST(Trainer, learns_a_batch_by_heart) {
  const test::SmallModel model;
  TrainerOptions job = small_job(4);
  job.optimizer.eps = 1e-8;
  Training training(test::test_world(), model, job);
  const double first = training.step(0).loss;
  double last = first;
  for (int i = 0; i < 30; ++i) last = training.step(0).loss;
  EXPECT_GT(first, 2.5);
  EXPECT_LT(last, 0.5 * first);
}

TEST(Trainer, trains_alike_with_frozen_weights_that_are_kept_and_sends_them_once) {
  const test::SmallModel model(nlohmann::json::object(), DType::kFloat32, {"model.layers.0.mlp.gate.weight"});
  const int world = test::test_world().size();
  const TrainerOptions job = small_job(world);
  const auto steps = [&](FrozenUnits frozen) {
    Training training(test::test_world(), model, job, world, {}, /*has_disk=*/true, frozen);
    std::vector<StepMetrics> metrics;
    for (int step = 0; step < 3; ++step) metrics.push_back(training.step(step));
    return metrics;
  };
  const std::vector<StepMetrics> gathered = steps(FrozenUnits::kGathered), kept = steps(FrozenUnits::kKept);
  std::vector<std::int64_t> saved;  // bytes that are not sent
  for (std::size_t step = 0; step < kept.size(); ++step) {
    EXPECT_EQ(kept[step].loss, gathered[step].loss);
    EXPECT_EQ(kept[step].grad_norm, gathered[step].grad_norm);
    saved.push_back(gathered[step].communicated_bytes - kept[step].communicated_bytes);
  }
  std::int64_t dense = 0;
  for (const FlatLayout& unit : model.layouts.units)
    if (!unit.is_trained() && unit.kind() == UnitKind::kDense) dense += unit.elements() * 4 * (world - 1);
  EXPECT_GE(saved[1], 2 * dense) << "neither forward nor backward sends them";
  EXPECT_GE(saved[2], 2 * dense);
}

/// Documents of these lengths in two rows of `length` + 1 tokens; all begin in a row and end in it.
Batch packed_rows(const std::vector<std::int64_t>& lengths, std::int64_t length) {
  Batch batch{2, length};
  for (const std::int64_t tokens : lengths)
    for (std::int64_t t = 0; t < tokens; ++t) {
      const auto i = std::ssize(batch.ids);
      batch.ids.push_back((i * i + 5 * i) % 29);
      batch.marks.push_back(t == 0 ? TokenMark::kBegins : TokenMark::kInside);
    }
  EXPECT_EQ(std::ssize(batch.ids), 2 * (length + 1));
  batch.global_targets = count_targets(batch);
  return batch;
}

/// Document `tokens` long from `first` on, as a batch of its own.
Batch document_of(const Batch& packed, std::int64_t first, std::int64_t tokens) {
  Batch batch{1, tokens - 1, {packed.ids.begin() + first, packed.ids.begin() + first + tokens}};
  batch.global_targets = count_targets(batch);
  return batch;
}

void add(ShardArena& sum, const ShardArena& part, double factor) {
  auto* out = reinterpret_cast<float*>(sum.data());
  const auto* in = reinterpret_cast<const float*>(part.data());
  for (std::int64_t i = 0; i < sum.bytes() / 4; ++i) out[i] += static_cast<float>(factor) * in[i];
}

/// Loss and gradients of packed rows against the sums over their documents, each trained on alone.
void expect_documents_alone(const nlohmann::json& changes, Recompute recompute) {
  const test::SmallModel model(changes);
  const std::vector<std::int64_t> lengths{40, 1, 3, 36, 2, 70, 1, 7};
  constexpr std::int64_t kRow = 79;
  const Batch packed = packed_rows(lengths, kRow);
  TrainerOptions job = small_job(2, recompute);
  job.train.aux_loss_coefficient = job.train.router_z_loss = 0;
  job.sequence_length = kRow;
  Training together(test::test_world(), model, job);
  const StepMetrics found = together.gradients_of(packed);

  double loss = 0;
  ShardArena gradients(together.gradients().plan(), test::test_world().rank(), DType::kFloat32,
                       MemoryKind::kPrivate, "sum");
  std::memset(gradients.data(), 0, static_cast<std::size_t>(gradients.bytes()));
  std::int64_t first = 0;
  for (const std::int64_t tokens : lengths) {
    const double share = static_cast<double>(tokens - 1) / static_cast<double>(packed.global_targets);
    if (tokens > 1) {
      Training alone(test::test_world(), model, job);
      loss += share * alone.gradients_of(document_of(packed, first, tokens)).loss;
      add(gradients, alone.gradients(), share);
    }
    first += tokens;
  }
  EXPECT_NEAR(found.loss, loss, 1e-6);
  expect_same_elements(together.gradients(), gradients, 1e-5F);
}

TEST(Trainer, packed_documents_give_the_loss_and_gradients_of_each_alone) {
  expect_documents_alone(nlohmann::json::object(), Recompute::kNone);
}

TEST(Trainer, packed_documents_stay_apart_in_the_recurrent_state_too) {
  expect_documents_alone(test::hybrid_changes(), Recompute::kLayer);
}

/// A layer with Kimi delta attention and one with latent attention, as these two families have them.
TEST(Trainer, packed_documents_stay_apart_in_models_of_kimi_delta_attention) {
  for (const char* model_type : {"kimi_linear", "bailing_hybrid"}) {
    SCOPED_TRACE(model_type);
    nlohmann::json changes = test::kimi_changes(model_type, /*linear_heads=*/4);
    changes.update({{"mlp_layer_types", {"dense", "sparse"}}, {"n_group", 1}, {"topk_group", 1}});
    expect_documents_alone(changes, Recompute::kLayer);
  }
}

TEST(Trainer, packed_documents_stay_apart_where_the_mlp_is_beside_the_attention) {
  expect_documents_alone(test::parallel_changes(), Recompute::kLayer);
}

/// A row for each list of documents, given by their lengths, filled up with padding.
Batch padded_rows(const std::vector<std::vector<std::int64_t>>& rows, std::int64_t length) {
  Batch batch{std::ssize(rows), length};
  for (const std::vector<std::int64_t>& documents : rows) {
    const std::int64_t end = std::ssize(batch.ids) + length + 1;
    for (const std::int64_t tokens : documents)
      for (std::int64_t t = 0; t < tokens; ++t) {
        batch.ids.push_back((t * t + 5 * t + tokens) % 29);
        batch.marks.push_back(t == 0 ? TokenMark::kBegins : TokenMark::kInside);
      }
    batch.ids.resize(static_cast<std::size_t>(end));
    batch.marks.resize(static_cast<std::size_t>(end), TokenMark::kPadding);
  }
  batch.global_targets = count_targets(batch);
  batch.global_padding = count_padding(batch);
  return batch;
}

/// The same documents in rows with much, some and no padding, and the load-balancing loss.
void expect_padding_counts_nowhere(const nlohmann::json& changes) {
  const test::SmallModel model(changes);
  TrainerOptions job = small_job(3);
  job.sequence_length = 40;
  Training alone(test::test_world(), model, job);
  const StepMetrics expected = alone.gradients_of(padded_rows({{23}, {12}, {5}}, 40));
  EXPECT_EQ(expected.tokens, 40);
  job.train.batch_sequences = 2;
  Training two(test::test_world(), model, job);
  expect_same_metrics(two.gradients_of(padded_rows({{23, 5}, {12}}, 40)), expected);
  expect_same_elements(two.gradients(), alone.gradients(), 1e-5F);
  job.train.batch_sequences = 1;
  Training full(test::test_world(), model, job);
  expect_same_metrics(full.gradients_of(padded_rows({{23, 12, 5}}, 40)), expected);
  expect_same_elements(full.gradients(), alone.gradients(), 1e-5F);
}

TEST(Trainer, padding_counts_neither_in_losses_nor_in_gradients_nor_among_the_experts_tokens) {
  expect_padding_counts_nowhere(nlohmann::json::object());
  expect_padding_counts_nowhere(test::hybrid_changes());
}

TEST(Trainer, masked_targets_count_neither_in_the_loss_nor_in_its_mean) {
  const test::SmallModel model;
  TrainerOptions job = small_job(2, Recompute::kLayer);
  job.train.aux_loss_coefficient = job.train.router_z_loss = 0;
  Batch whole = half_masked(job, 0);
  whole.marks.clear();
  whole.global_targets = count_targets(whole);
  Training all(test::test_world(), model, job);
  const double loss = all.gradients_of(whole).loss;
  double sum = 0;
  ShardArena gradients(all.gradients().plan(), test::test_world().rank(), DType::kFloat32,
                       MemoryKind::kPrivate, "sum");
  std::memset(gradients.data(), 0, static_cast<std::size_t>(gradients.bytes()));
  for (const std::int64_t parity : {0, 1}) {
    const Batch half = half_masked(job, parity);
    const double share = half.loss_divisor() / whole.loss_divisor();
    Training part(test::test_world(), model, job);
    sum += share * part.gradients_of(half).loss;
    add(gradients, part.gradients(), share);
  }
  EXPECT_NEAR(loss, sum, 1e-6);
  expect_same_elements(all.gradients(), gradients, 1e-5F);
}

TEST(Trainer, a_batch_without_any_target_leaves_weights_and_state_as_they_are) {
  const test::SmallModel model;
  for (const GradientMode gradients : {GradientMode::kFloat32, GradientMode::kRelease}) {
    TrainerOptions job = small_job(2, Recompute::kLayer);
    job.optimizer.gradients = gradients;
    Batch empty = half_masked(job, 0);
    std::ranges::fill(empty.marks, TokenMark::kMasked);
    empty.global_targets = count_targets(empty);
    Training training(test::test_world(), model, job), without(test::test_world(), model, job);
    training.step(0);  // momentum, and weight decay, would move the weights on
    without.step(0);
    const StepMetrics metrics = training.step_on(empty);
    EXPECT_EQ(metrics.left_out, LeftOut::kNoTarget);
    EXPECT_TRUE(std::isnan(metrics.loss) && std::isnan(metrics.grad_norm));
    EXPECT_EQ(metrics.expert_tokens.size(), without.step(1).expert_tokens.size());
    training.step(1);
    expect_same_elements(training.weights(), without.weights(), 0);
  }
}

TEST(Trainer, broken_weights_on_one_rank_end_the_step_on_all_and_are_left_alone) {
  Communicator& comm = test::test_world();
  const test::SmallModel model;
  Training training(comm, model, small_job(5));
  const int last_unit = static_cast<int>(model.layouts.units.size()) - 1;
  if (comm.rank() == comm.size() - 1)
    *reinterpret_cast<float*>(training.weights().unit_data(last_unit)) =
        std::numeric_limits<float>::quiet_NaN();
  const ShardArena& weights = training.weights();
  const std::vector<std::byte> before(weights.data(), weights.data() + weights.bytes());
  test::expect_error(ExitCode::kNumerics,
                     {"step 8: loss", "not finite, first in ", " on rank", "learning rate"},
                     [&] { static_cast<void>(training.step(7)); });
  EXPECT_EQ(std::memcmp(weights.data(), before.data(), before.size()), 0);
}

TEST(Trainer, broken_weights_are_found_by_all_ranks_where_some_have_a_disk) {
  Communicator& comm = test::test_world();
  const bool is_last = comm.rank() == comm.size() - 1;
  const test::SmallModel model;
  TrainerOptions job = small_job(5);
  job.optimizer.gradients = GradientMode::kRelease;
  const test::TemporaryDirectory directory;
  Training training(comm, model, job, 1, directory.path(), /*has_disk=*/!is_last);
  const int last_unit = static_cast<int>(model.layouts.units.size()) - 1;
  if (is_last)
    *reinterpret_cast<float*>(training.weights().unit_data(last_unit)) =
        std::numeric_limits<float>::quiet_NaN();
  test::expect_error(ExitCode::kNumerics, {"step 1: loss", "not finite, first in ", " on rank"},
                     [&] { static_cast<void>(training.step(0)); });
}

TEST(Trainer, an_update_that_destroys_weights_is_found_before_they_are_written) {
  const test::SmallModel model;
  Training training(test::test_world(), model, small_job(4));
  static_cast<void>(training.step(0));
  training.require_finite_weights();
  static_cast<void>(training.step(1, std::numeric_limits<double>::infinity(), /*rate=*/1e40));
  test::expect_error(ExitCode::kNumerics, {"not finite", "learning rate"},
                     [&] { training.require_finite_weights(); });
}

/// How far weights may be after one more step: those of gradients that are added up in another order alone, or
/// rounded to bfloat16 as well. An update is at most the rate; half of bfloat16's distance, 2^-8, is in both
/// moments, and as much again in what gradients of such weights make of it.
float largest_difference(GradientMode gradients) {
  return gradients == GradientMode::kRelease ? 1e-6F : static_cast<float>(kRate) * 4 * 0x1p-8F;
}

/// Three steps with gradients kept in float32, and in each of the modes given, on the same ranks. Losses and
/// norms are those of equal weights in the first one alone; after it they say no more than the weights do.
void expect_trains_as_with_kept_gradients(const nlohmann::json& changes, TrainerOptions job,
                                          const std::vector<GradientMode>& modes, int expert_parallel) {
  const test::SmallModel model(changes);
  Training kept(test::test_world(), model, job, expert_parallel);
  std::vector<std::unique_ptr<Training>> others;
  for (const GradientMode gradients : modes) {
    job.optimizer.gradients = gradients;
    others.push_back(std::make_unique<Training>(test::test_world(), model, job, expert_parallel));
  }
  for (std::int64_t step = 0; step < 3; ++step) {
    const StepMetrics expected = kept.step(step);
    for (std::size_t i = 0; i < modes.size(); ++i) {
      SCOPED_TRACE(testing::Message() << name_of(modes[i]) << ", groups of " << expert_parallel);
      const StepMetrics found = others[i]->step(step);
      if (step == 0 || modes[i] == GradientMode::kRelease) {
        EXPECT_NEAR(found.loss, expected.loss, 1e-6);
        EXPECT_NEAR(found.grad_norm, expected.grad_norm, 1e-5 * expected.grad_norm);
      }
      expect_same_elements(others[i]->weights(), kept.weights(),
                           static_cast<float>(step + 1) * largest_difference(modes[i]));
    }
  }
}

/// Any three values of clip rule, batch, groups and model go together once, not all four.
TEST(Trainer, gradients_that_are_released_or_rounded_train_as_those_that_are_kept) {
  const int ranks = test::test_world().size();
  const nlohmann::json plain = nlohmann::json::object(),
                       tied{
                           {"tie_word_embeddings", true}, {"num_hidden_layers", 3}, {"mlp_only_layers", {1}}};
  for (const bool clips_units : {false, true}) {
    for (const bool has_groups : {false, true}) {
      bool is_tied = clips_units != has_groups;
      for (const std::int64_t sequences :
           {std::int64_t{1}, std::int64_t{ranks}, std::int64_t{3} * ranks + 1}) {
        TrainerOptions job = small_job(sequences);
        job.optimizer.clip = clips_units ? ClipRule::kUnit : ClipRule::kGlobal;
        job.optimizer.max_grad_norm = 0.05;
        expect_trains_as_with_kept_gradients(is_tied ? tied : plain, job,
                                             {GradientMode::kBFloat16, GradientMode::kRelease},
                                             has_groups ? ranks : 1);
        is_tied = !is_tied;
      }
    }
  }
}

TEST(Trainer, a_second_backward_pass_finds_the_same_whatever_was_kept_for_it) {
  for (const Recompute recompute : {Recompute::kNone, Recompute::kLayer, Recompute::kAll})
    expect_trains_as_with_kept_gradients(test::hybrid_changes(), small_job(4, recompute),
                                         {GradientMode::kRelease}, test::test_world().size());
}

TEST(Trainer, a_gradient_that_is_not_finite_is_never_applied_where_it_is_released) {
  TrainerOptions job = small_job(4);
  job.optimizer.gradients = GradientMode::kRelease;
  job.optimizer.clip = ClipRule::kUnit;
  const test::SmallModel model;
  Training training(test::test_world(), model, job);
  const std::size_t bytes = static_cast<std::size_t>(training.weights().bytes());
  auto* weights = reinterpret_cast<float*>(training.weights().data());
  std::fill_n(weights, bytes / sizeof(float), std::numeric_limits<float>::quiet_NaN());
  test::expect_error(ExitCode::kNumerics, {"step 1: loss", "not finite"},
                     [&] { static_cast<void>(training.step(0)); });
}

/// While it lives, one rank's gradient of a unit is NaN: of the first step's `unit`-th in the order of the
/// backward pass.
class BrokenGradient {
 public:
  BrokenGradient(int rank, int unit) {
    broken_rank_ = rank;
    passes_left_ = unit;
    fault_hook = [](std::string_view site, int at_rank, std::span<std::byte> data) {
      if (site != "train.gradient" || at_rank != broken_rank_ || passes_left_-- != 0) return;
      const float nan = std::numeric_limits<float>::quiet_NaN();
      std::memcpy(data.data(), &nan, sizeof nan);
    };
  }
  ~BrokenGradient() { fault_hook = nullptr; }
  BrokenGradient(const BrokenGradient&) = delete;
  BrokenGradient& operator=(const BrokenGradient&) = delete;

 private:
  static inline int broken_rank_ = 0;
  static inline int passes_left_ = 0;
};

std::vector<std::byte> bytes_of(const ShardArena& shards) {
  return {shards.data(), shards.data() + shards.bytes()};
}

bool is_finite(const ShardArena& weights) {
  const auto* values = reinterpret_cast<const float*>(weights.data());
  return std::all_of(values, values + weights.bytes() / static_cast<std::int64_t>(sizeof(float)),
                     [](float value) { return std::isfinite(value); });
}

TEST(Trainer, leaves_out_the_update_of_a_step_whose_gradient_is_not_finite_on_one_rank_and_goes_on) {
  Communicator& comm = test::test_world();
  const test::SmallModel model;
  for (const GradientMode gradients :
       {GradientMode::kFloat32, GradientMode::kBFloat16, GradientMode::kRelease})
    for (const int expert_parallel : {1, comm.size()}) {
      SCOPED_TRACE(testing::Message() << name_of(gradients) << ", groups of " << expert_parallel);
      TrainerOptions job = small_job(5);
      job.optimizer.gradients = gradients;
      job.on_nonfinite = OnNonFinite::kSkip;
      Training training(comm, model, job, expert_parallel);
      const std::vector<std::byte> before = bytes_of(training.weights());
      {
        const BrokenGradient broken(comm.size() - 1, 1);
        const StepMetrics metrics = training.step(0);
        EXPECT_EQ(metrics.left_out, LeftOut::kNonFinite);
        EXPECT_THAT(metrics.finding, testing::HasSubstr("gradient of model.layers."));
        EXPECT_THAT(metrics.finding, testing::HasSubstr("left as they are"));
        EXPECT_TRUE(std::isfinite(metrics.loss));
      }
      EXPECT_EQ(bytes_of(training.weights()), before);
      EXPECT_EQ(training.step(1).left_out, LeftOut::kNo);
      EXPECT_NE(bytes_of(training.weights()), before);
    }
}

TEST(Trainer, ends_on_all_ranks_with_the_tensor_where_it_is_told_to_stop) {
  Communicator& comm = test::test_world();
  const test::SmallModel model;
  Training training(comm, model, small_job(5));
  const BrokenGradient broken(0, 1);
  test::expect_error(ExitCode::kNumerics, {"step 1: loss", "gradient norm nan", "gradient of model.layers."},
                     [&] { static_cast<void>(training.step(0)); });
}

TEST(Trainer, updates_nothing_behind_a_gradient_that_is_not_finite_where_units_are_clipped_and_released) {
  Communicator& comm = test::test_world();
  const test::SmallModel model;
  for (const int expert_parallel : {1, comm.size()}) {
    TrainerOptions job = small_job(5);
    job.optimizer.gradients = GradientMode::kRelease;
    job.optimizer.clip = ClipRule::kUnit;
    job.on_nonfinite = OnNonFinite::kSkip;
    Training training(comm, model, job, expert_parallel);
    const std::vector<std::byte> before = bytes_of(training.weights());
    {
      const BrokenGradient broken(comm.size() - 1, 1);
      const StepMetrics metrics = training.step(0);
      EXPECT_EQ(metrics.left_out, LeftOut::kNonFinite);
      EXPECT_THAT(metrics.finding, testing::HasSubstr("layers above it"));
    }
    EXPECT_TRUE(is_finite(training.weights()));
    // The embedding is the first unit of the arena and the last of the backward pass.
    const auto embedding = static_cast<std::size_t>(training.weights().unit_elements(0)) * sizeof(float);
    EXPECT_EQ(std::memcmp(training.weights().data(), before.data(), embedding), 0);
    EXPECT_EQ(training.step(1).left_out, LeftOut::kNo);
    EXPECT_TRUE(is_finite(training.weights()));
  }
}

/// Sequences with a pair each: documents of 4 and 3 tokens that begin with a prompt of 2, in every other sequence
/// the shorter one preferred.
Batch some_pairs(std::int64_t sequences) {
  using enum TokenMark;
  Batch batch{sequences, kSequenceLength};
  for (std::int64_t sequence = 0; sequence < sequences; ++sequence) {
    for (std::int64_t i = 0; i <= kSequenceLength; ++i)
      batch.ids.push_back((i % 4 < 2 ? i % 4 : sequence + 3 * i) % 29);
    for (const TokenMark mark : {kBegins, kMasked, kInside, kInside, kBegins, kMasked, kInside, kPadding})
      batch.marks.push_back(mark);
    PreferencePair pair{.sequence = sequence, .chosen = {0, 3}, .rejected = {4, 6}};
    if (sequence % 2 == 1) std::swap(pair.chosen, pair.rejected);
    batch.pairs.push_back(pair);
  }
  batch.global_targets = count_targets(batch);
  batch.global_pairs = sequences;
  return batch;
}

TrainerOptions preferring_job(std::int64_t batch_sequences, PreferenceLoss loss) {
  TrainerOptions job = small_job(batch_sequences);
  job.train.micro_batch_sequences = 1;
  job.prefer = {.loss = loss, .beta = 0.5, .sft_weight = 0.25, .reference = {PreferenceReference::kBase}};
  return job;
}

const std::vector<std::string>& adapted_weights() {
  static const std::vector<std::string> names{
      "model.layers.0.self_attn.q_proj.weight", "model.layers.1.mlp.gate.weight",
      "model.layers.0.mlp.experts.gate_up_proj", "model.layers.1.mlp.experts.down_proj", "lm_head.weight"};
  return names;
}

void expect_same_preferences(const StepMetrics& found, const StepMetrics& expected) {
  ASSERT_TRUE(found.preferences && expected.preferences);
  EXPECT_NEAR(found.preferences->chosen_reward, expected.preferences->chosen_reward, 1e-5);
  EXPECT_NEAR(found.preferences->rejected_reward, expected.preferences->rejected_reward, 1e-5);
  EXPECT_NEAR(found.preferences->chosen_log_prob, expected.preferences->chosen_log_prob, 1e-5);
  EXPECT_EQ(found.preferences->accuracy, expected.preferences->accuracy);
}

/// Ranks of which some have fewer micro-batches than others, or none, against one alone.
void expect_same_preferences_for_any_ranks(const test::SmallModel& model, const TrainerOptions& job) {
  const std::unique_ptr<Communicator> alone = test::test_world().split(test::test_world().rank(), 0);
  const int ranks = test::test_world().size();
  const Batch batch = some_pairs(job.train.batch_sequences);
  for (const int expert_parallel : {1, ranks}) {
    Training single(*alone, model, job);
    Training shared(test::test_world(), model, job, expert_parallel);
    for (int step = 0; step < 3; ++step) {
      const StepMetrics expected = single.step_on(batch), found = shared.step_on(batch);
      ASSERT_NO_FATAL_FAILURE(expect_same_metrics(found, expected));
      ASSERT_NO_FATAL_FAILURE(expect_same_preferences(found, expected));
    }
    expect_same_elements(shared.weights(), single.weights(), 3e-5F);
  }
}

TEST(Trainer, prefers_the_same_on_any_number_of_ranks) {
  const test::SmallModel whole, adapted(nlohmann::json::object(), DType::kFloat32, adapted_weights());
  for (const std::int64_t sequences : {1, 5}) {
    expect_same_preferences_for_any_ranks(whole, preferring_job(sequences, PreferenceLoss::kOrpo));
    expect_same_preferences_for_any_ranks(adapted, preferring_job(sequences, PreferenceLoss::kSigmoid));
  }
}

TEST(Trainer, begins_to_prefer_with_a_new_adapter_from_the_model_itself) {
  const test::SmallModel model(nlohmann::json::object(), DType::kFloat32, adapted_weights());
  TrainerOptions job = preferring_job(5, PreferenceLoss::kSigmoid);
  job.prefer->sft_weight = 0;
  Training training(test::test_world(), model, job);
  const StepMetrics first = training.step_on(some_pairs(5));
  EXPECT_DOUBLE_EQ(first.loss, std::log(2));
  EXPECT_FALSE(first.preferences->has_margin);
  const StepMetrics second = training.step_on(some_pairs(5));
  EXPECT_TRUE(second.preferences->has_margin);
  EXPECT_LT(second.loss, first.loss);
  EXPECT_GT(second.preferences->margin(), 0);
}

TEST(Trainer, learns_to_prefer_by_heart_in_every_way_to_keep_gradients) {
  const test::SmallModel model;
  const Batch batch = some_pairs(4);
  for (const GradientMode gradients : {GradientMode::kFloat32, GradientMode::kRelease}) {
    TrainerOptions job = preferring_job(4, PreferenceLoss::kOrpo);
    job.optimizer.eps = 1e-8;
    job.optimizer.gradients = gradients;
    Training training(test::test_world(), model, job);
    const double first = training.step_on(batch).loss;
    for (int i = 0; i < 30; ++i) training.step_on(batch);
    const StepMetrics last = training.step_on(batch);
    EXPECT_LT(last.loss, 0.5 * first);
    EXPECT_EQ(last.preferences->accuracy, 1);
  }
}

TEST(Trainer, leaves_out_the_update_of_a_step_whose_loss_is_too_large_in_every_mode) {
  const test::SmallModel model;
  for (const GradientMode gradients : {GradientMode::kFloat32, GradientMode::kRelease})
    for (const ClipRule clip : {ClipRule::kGlobal, ClipRule::kUnit}) {
      TrainerOptions job = small_job(5);
      job.optimizer.gradients = gradients;
      job.optimizer.clip = clip;
      Training training(test::test_world(), model, job);
      const std::vector<std::byte> before = bytes_of(training.weights());
      const StepMetrics spike = training.step(0, /*largest_loss=*/0.5);
      EXPECT_EQ(spike.left_out, LeftOut::kSpike);
      EXPECT_GT(spike.loss, 0.5);
      EXPECT_EQ(bytes_of(training.weights()), before);
      EXPECT_EQ(training.step(0, 100).left_out, LeftOut::kNo);
    }
}

TEST(Trainer, goes_on_from_a_disk_after_an_update_was_left_out_as_from_memory) {
  const test::SmallModel model(nlohmann::json{{"num_hidden_layers", 4}, {"mlp_only_layers", {1}}});
  TrainerOptions job = small_job(5);
  job.optimizer.gradients = GradientMode::kRelease;
  Training in_memory(test::test_world(), model, job);
  const test::TemporaryDirectory directory;
  Training on_disk(test::test_world(), model, job, 1, directory.path());
  for (std::int64_t step = 0; step < 4; ++step) {
    const double largest = step == 1 ? 0.5 : 100;
    EXPECT_EQ(in_memory.step(step, largest).loss, on_disk.step(step, largest).loss);
  }
  const WholeAccess access(on_disk.weights(), WholeAccess::Access::kRead);
  expect_same_elements(on_disk.weights(), in_memory.weights(), /*tolerance=*/0);
}

void expect_trains_from_a_disk_as_from_memory(const TrainerOptions& job, int expert_parallel) {
  SCOPED_TRACE(testing::Message() << name_of(job.optimizer.kind) << ", groups of " << expert_parallel);
  const test::SmallModel model(nlohmann::json{{"num_hidden_layers", 4}, {"mlp_only_layers", {1}}});
  Training in_memory(test::test_world(), model, job, expert_parallel);
  const test::TemporaryDirectory directory;
  Training on_disk(test::test_world(), model, job, expert_parallel, directory.path());
  EXPECT_TRUE(std::filesystem::is_empty(directory.path())) << "the file has no name";
  for (std::int64_t step = 0; step < 3; ++step) {
    const StepMetrics expected = in_memory.step(step), found = on_disk.step(step);
    EXPECT_EQ(found.loss, expected.loss);
    EXPECT_EQ(found.grad_norm, expected.grad_norm);
  }
  EXPECT_GT(on_disk.disk_reads(), 0);
  const WholeAccess access(on_disk.weights(), WholeAccess::Access::kRead);
  expect_same_elements(on_disk.weights(), in_memory.weights(), /*tolerance=*/0);
}

/// Any two values of mode, batch and groups go together once.
TEST(Trainer, what_lies_on_a_disk_is_trained_bit_for_bit_as_in_memory) {
  const int ranks = test::test_world().size();
  bool has_groups = false;
  for (const OptimizerMode& mode :
       {OptimizerMode{.gradients = GradientMode::kRelease},
        OptimizerMode{.state = StateFormat::kBFloat16, .gradients = GradientMode::kRelease},
        OptimizerMode{.kind = OptimizerKind::kAdafactor,
        .state = StateFormat::kFactored,
        .gradients = GradientMode::kRelease,
        .clip = ClipRule::kUnit}}) {
    for (const std::int64_t sequences : {std::int64_t{1}, std::int64_t{3} * ranks + 1}) {
      TrainerOptions job = small_job(sequences);
      job.optimizer.set_mode(mode);
      job.optimizer.max_grad_norm = 0.05;
      expect_trains_from_a_disk_as_from_memory(job, has_groups ? ranks : 1);
      has_groups = !has_groups;
    }
    has_groups = !has_groups;
  }
}

}  // namespace
}  // namespace sluice
