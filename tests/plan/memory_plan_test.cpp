#include "plan/memory_plan.hpp"

#include "base/bytes.hpp"
#include "manifest/adapter.hpp"
#include "model/small_model.hpp"
#include "plan/activation_plan.hpp"
#include "plan/optimizer_layout.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace sluice {
namespace {

constexpr std::int64_t kStagingBytes = 7 * kMiB;

Workload training(DType dtype) { return {.dtype = dtype, .pass_length = 8, .batch_sequences = 5}; }

std::vector<RankMemory> plan(const test::SmallModel& model, int world, const Workload& work,
                             int expert_parallel = 1, int replicas = 1) {
  const ShardPlan shards(model.layouts, {world, expert_parallel, replicas});
  const StagePlan stages =
      make_stage_plan(model.layouts, TiedHead{model.description.config.tie_word_embeddings});
  const std::vector<std::int64_t> staging(static_cast<std::size_t>(world * replicas), kStagingBytes);
  return plan_memory(model.description.config, model.description.manifest, shards, stages, work, staging);
}

TEST(MemoryPlan, states_what_the_arenas_take) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const test::SmallModel model(nlohmann::json::object(), dtype);
    const ShardPlan shards(model.layouts, {.world = 3});
    const std::vector<RankMemory> memory = plan(model, 3, training(dtype));
    for (int rank = 0; rank < 3; ++rank) {
      const RankMemory& planned = memory[static_cast<std::size_t>(rank)];
      EXPECT_EQ(planned.weights, ShardArena(shards, rank, dtype, MemoryKind::kPrivate, "weights").bytes());
      const std::int64_t state =
          ShardArena(shards, rank, DType::kFloat32, MemoryKind::kPrivate, "state").bytes();
      EXPECT_EQ(planned.gradients, state);
      EXPECT_EQ(planned.optimizer,
                OptimizerLayout(model.description.manifest, shards, rank, {}, dtype).bytes());
    }
  }
}

TEST(MemoryPlan, states_the_gather_slots_and_the_gradient_buffer) {
  const test::SmallModel model;
  const auto elements = [&](std::size_t unit) { return model.layouts.units[unit].elements(); };
  // Units: embedding, then dense part and experts of two equal layers, then final.
  const std::int64_t dense = elements(1);
  const std::int64_t experts = elements(2);
  for (const RankMemory& planned : plan(model, 2, training(DType::kBFloat16))) {
    EXPECT_EQ(planned.gather_buffers, (dense + std::max({elements(0), dense, elements(5)}) + experts) * 2);
    EXPECT_EQ(planned.gradient_buffer, (dense + experts) * 4);
  }
}

TEST(MemoryPlan, ranks_that_have_the_vocabulary_between_them_need_no_room_for_a_whole_head) {
  const nlohmann::json large{{"vocab_size", 5000}};
  const test::SmallModel gathered(large), shared(large, DType::kFloat32, {}, Vocabulary::kByRows);
  const Workload work = training(DType::kFloat32);
  const RankMemory whole = plan(gathered, 3, work).back(), rows = plan(shared, 3, work).back();
  const std::int64_t head = 5000 * gathered.description.config.hidden_size * 4;
  EXPECT_LT(rows.gather_buffers, whole.gather_buffers - head / 2);
  EXPECT_LT(rows.gradient_buffer, whole.gradient_buffer - head / 2);
  EXPECT_NEAR(static_cast<double>(rows.weights), static_cast<double>(whole.weights),
              0.01 * static_cast<double>(head));
  EXPECT_GE(rows.activations, whole.activations) << "hidden states of other ranks, and rows of the embedding";
}

TEST(MemoryPlan, each_copy_of_the_model_takes_what_its_ranks_do_alone_and_the_first_is_saved) {
  const test::SmallModel model;
  Workload work = training(DType::kBFloat16);
  work.batch_sequences = 4;
  const std::vector<RankMemory> one = plan(model, 2, work, 2);
  work.batch_sequences = 8;
  const std::vector<RankMemory> copies = plan(model, 2, work, 2, 2);
  ASSERT_EQ(copies.size(), 4U);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const RankMemory& alone = one[rank % 2];
    EXPECT_EQ(copies[rank].weights, alone.weights);
    EXPECT_EQ(copies[rank].optimizer, alone.optimizer);
    EXPECT_EQ(copies[rank].gather_buffers, alone.gather_buffers);
    EXPECT_EQ(copies[rank].activations, alone.activations);
    EXPECT_EQ(copies[rank].saved, rank < 2 ? alone.saved : 0);
  }
}

TEST(MemoryPlan, experts_that_tokens_travel_to_need_no_buffers) {
  const test::SmallModel model;
  const auto elements = [&](std::size_t unit) { return model.layouts.units[unit].elements(); };
  const std::int64_t largest = std::max({elements(0), elements(1), elements(5)});
  for (const RankMemory& planned : plan(model, 2, training(DType::kBFloat16), 2)) {
    EXPECT_EQ(planned.gather_buffers, (elements(1) + largest) * 2);
    EXPECT_EQ(planned.gradient_buffer, (elements(1) + largest) * 4);
  }
}

TEST(MemoryPlan, counts_the_hidden_states_of_a_reference) {
  const test::SmallModel model;
  Workload work = training(DType::kBFloat16);
  const TokenLoad load{.own_sequences = 3, .group_sequences = work.micro_batch_sequences};
  const ActivationBytes alone = plan_activations(model.description.config, work, load);
  work.has_reference = true;
  const ActivationBytes compared = plan_activations(model.description.config, work, load);
  const std::int64_t sequences = 3 + std::min<std::int64_t>(3, work.micro_batch_sequences);
  EXPECT_EQ(compared.forward - alone.forward,
            sequences * work.pass_length * model.description.config.hidden_size * 2);
  EXPECT_GE(compared.backward, alone.backward);
}

TEST(MemoryPlan, counts_the_distributions_that_a_teacher_gives_of_each_token) {
  const test::SmallModel model;
  Workload work = training(DType::kBFloat16);
  const TokenLoad load{.own_sequences = 3, .group_sequences = work.micro_batch_sequences};
  const ActivationBytes alone = plan_activations(model.description.config, work, load);
  work.distribution_tokens = 32;
  const ActivationBytes taught = plan_activations(model.description.config, work, load);
  EXPECT_EQ(taught.forward, alone.forward) << "logits are made in the backward pass";
  EXPECT_GE(taught.backward, alone.backward);
  work.trains = false;
  const ActivationBytes scored = plan_activations(model.description.config, work, load);
  work.distribution_tokens = 0;
  EXPECT_GT(scored.forward, plan_activations(model.description.config, work, load).forward);
}

TEST(MemoryPlan, counts_only_what_the_kind_of_job_needs) {
  const test::SmallModel model;
  Workload work = training(DType::kBFloat16);
  const RankMemory trains = plan(model, 2, work).front();
  work.trains = false;
  const RankMemory evaluates = plan(model, 2, work).front();
  EXPECT_EQ(evaluates.gather_buffers, trains.gather_buffers);
  EXPECT_EQ(evaluates.gradients + evaluates.optimizer + evaluates.gradient_buffer, 0);
  EXPECT_GT(evaluates.activations, 0);
  EXPECT_LT(evaluates.activations, trains.activations);
  work.computes = false;
  const RankMemory loads = plan(model, 2, work).front();
  EXPECT_EQ(loads.compute_total(), loads.weights);
  EXPECT_EQ(loads.batch, 0);
  EXPECT_EQ(loads.peak(), trains.weights + trains.staging);
}

TEST(MemoryPlan, a_load_that_discards_keeps_no_weights) {
  const Workload work{.computes = false, .trains = false, .keeps_weights = false};
  const RankMemory planned = plan(test::SmallModel(), 2, work).front();
  EXPECT_EQ(planned.weights, 0);
  EXPECT_EQ(planned.peak(), planned.staging);
}

TEST(MemoryPlan, one_rank_needs_no_buffers_for_whole_units) {
  const RankMemory planned = plan(test::SmallModel(), 1, training(DType::kFloat32)).front();
  EXPECT_EQ(planned.gather_buffers, 0);
  EXPECT_EQ(planned.gradient_buffer, 0);
}

TEST(MemoryPlan, staging_is_what_it_is_given) {
  EXPECT_EQ(plan(test::SmallModel(), 2, training(DType::kFloat32))[1].staging, kStagingBytes);
}

TEST(MemoryPlan, rank_0_holds_the_batch_and_every_rank_its_share) {
  const std::vector<RankMemory> memory = plan(test::SmallModel(), 2, training(DType::kFloat32));
  // Of 5 sequences of 8 tokens and a target rank 0 has 3 and rank 1 has 2: ids and marks, inputs and targets.
  EXPECT_EQ(memory[0].batch, (5 + 3) * 9 * 9 + 3 * 8 * 16);
  EXPECT_EQ(memory[1].batch, 2 * 9 * 9 + 2 * 8 * 16);
}

TEST(MemoryPlan, rank_0_holds_the_documents_that_it_packs) {
  Workload packs = training(DType::kBFloat16);
  const std::vector<RankMemory> without = plan(test::SmallModel(), 2, packs);
  packs.packing_bytes = 1000;
  const std::vector<RankMemory> memory = plan(test::SmallModel(), 2, packs);
  EXPECT_EQ(memory[0].batch, without[0].batch + 1000);
  EXPECT_EQ(memory[1].batch, without[1].batch);
}

TEST(MemoryPlan, an_evaluation_holds_the_losses_of_the_same_tokens) {
  Workload work = training(DType::kFloat32);
  const std::vector<RankMemory> trains = plan(test::SmallModel(), 2, work);
  work.trains = false;
  const std::vector<RankMemory> evaluates = plan(test::SmallModel(), 2, work);
  EXPECT_EQ(evaluates[0].batch, trains[0].batch + (5 + 3) * 8 * 8);
  EXPECT_EQ(evaluates[1].batch, trains[1].batch + 2 * 8 * 8);
}

TEST(MemoryPlan, what_is_certain_leaves_out_activations) {
  const RankMemory planned = plan(test::SmallModel(), 2, training(DType::kFloat32)).front();
  EXPECT_EQ(planned.certain(), planned.compute_total() - planned.activations);
}

TEST(MemoryPlan, ranks_with_more_sequences_keep_more_activations) {
  const std::vector<RankMemory> memory = plan(test::SmallModel(), 2, training(DType::kFloat32));
  // Of 5 sequences rank 0 has 3 and rank 1 has 2. The third keeps the input of each layer: 8 tokens of 24.
  EXPECT_GE(memory[0].activations, memory[1].activations + 3 * 8 * 24 * 4);
}

TEST(MemoryPlan, what_is_recomputed_is_not_kept) {
  const test::SmallModel model;
  const auto activations = [&](bool keeps_attention, bool keeps_graphs) {
    Workload work = training(DType::kFloat32);
    work.keeps_attention = keeps_attention;
    work.keeps_graphs = keeps_graphs;
    return plan(model, 2, work)[0].activations;
  };
  const std::int64_t attention = activations(true, false);
  EXPECT_GT(activations(true, true), attention);
  EXPECT_GT(attention, activations(false, false));
}

TEST(MemoryPlan, each_layer_keeps_its_attention_and_what_lies_between_its_halves) {
  const auto of_a_layer = [](bool keeps_attention) {
    Workload work = training(DType::kFloat32);
    work.keeps_attention = keeps_attention;
    const TokenLoad load{.own_sequences = 3, .group_sequences = work.micro_batch_sequences};
    const auto forward = [&](int layers) {
      const test::SmallModel model(nlohmann::json{{"num_hidden_layers", layers}});
      return plan_activations(model.description.config, work, load).forward;
    };
    return forward(3) - forward(2);
  };
  // Attention's output and its two sums are those of 4 heads of 10, for 3 x 8 tokens of 24.
  EXPECT_EQ(of_a_layer(true), of_a_layer(false) + 24 * (24 + 4 * (10 + 2)) * 4);
}

TEST(MemoryPlan, each_thread_takes_room_for_attention) {
  const test::SmallModel model;
  const auto activations = [&](std::int64_t threads) {
    Workload work = training(DType::kBFloat16);
    work.threads = threads;
    return plan(model, 1, work)[0].activations;
  };
  EXPECT_GT(activations(32), activations(16) + 16 * kMiB);
  EXPECT_EQ(activations(0), activations(16)) << "as many are taken where the machine decides";
}

TEST(MemoryPlan, a_device_works_on_more_rows_of_experts_and_wider_tiles_of_logits_at_once) {
  const test::SmallModel model;
  const auto activations = [&](bool trains, bool on_device) {
    Workload work = training(DType::kBFloat16);
    work.trains = trains;
    work.on_device = on_device;
    return plan_activations(model.description.config, work,
                            {.own_sequences = 4, .group_ranks = 1, .group_sequences = 4});
  };
  EXPECT_GT(activations(true, true).backward, activations(true, false).backward);
  EXPECT_GT(activations(false, true).forward, activations(false, false).forward);
}

TEST(MemoryPlan, tokens_that_are_sent_one_by_one_take_room_where_they_are_packed) {
  const test::SmallModel model;
  const auto backward = [&](std::int64_t group_ranks) {
    const TokenLoad load{.own_sequences = 2, .group_ranks = group_ranks, .group_sequences = 8};
    return plan_activations(model.description.config, training(DType::kBFloat16), load).backward;
  };
  EXPECT_EQ(backward(3), backward(4)) << "a group of few ranks gathers";
  EXPECT_GT(backward(5), backward(4));
}

TEST(MemoryPlan, a_unit_is_kept_twice_while_it_is_saved) {
  const test::SmallModel model;
  Workload work = training(DType::kBFloat16);
  const RankMemory without = plan(model, 1, work)[0];
  EXPECT_EQ(without.save_buffers, 0);
  work.save_staging_bytes = kMiB;
  const RankMemory with = plan(model, 1, work)[0];
  const std::int64_t state = with.weights + with.optimizer, unit = with.save_buffers - kMiB;
  EXPECT_GE(unit * std::ssize(model.layouts.units), state);
  EXPECT_LT(unit, state);
  EXPECT_EQ(with.peak(), without.peak() + with.save_buffers);
  work.offload_above = with.peak();
  EXPECT_EQ(plan(model, 1, work)[0].save_buffers, with.save_buffers) << "also of what may lie on a disk";
}

TEST(MemoryPlan, totals_are_made_of_the_parts) {
  const RankMemory planned = plan(test::SmallModel(), 2, training(DType::kBFloat16)).front();
  const auto parts = planned.parts();
  const std::int64_t sum =
      std::accumulate(parts.begin(), parts.end(), std::int64_t{0},
                      [](std::int64_t so_far, const auto& part) { return so_far + part.second; });
  EXPECT_EQ(planned.compute_total() + planned.staging, sum);
  EXPECT_EQ(planned.load_total(), planned.weights + planned.staging);
}

/// A small model that trains adapters of its top layer's attention.
struct AdaptedModel {
  explicit AdaptedModel(int layers = 2)
      : description(
            test::SmallModel(nlohmann::json::object({{"num_hidden_layers", layers}}), DType::kBFloat16)
                .description) {
    const std::string base = fmt::format("model.layers.{}.self_attn.q_proj.weight", layers - 1);
    add_adapters(description.manifest, {{{base, 4, 1}}, 0});
    layouts = make_unit_layouts(description.manifest);
  }

  [[nodiscard]] RankMemory plan(bool drops = false) const {
    const ShardPlan shards(layouts, {.world = 1});
    const StagePlan stages = make_stage_plan(layouts, TiedHead{description.config.tie_word_embeddings});
    Workload work = training(DType::kBFloat16);
    work.drops_inputs = drops;
    const std::vector<std::int64_t> staging{0};
    return plan_memory(description.config, description.manifest, shards, stages, work, staging).front();
  }

  ModelDescription description;
  UnitLayouts layouts;
};

TEST(MemoryPlan, a_frozen_parameter_takes_two_bytes_and_nothing_else) {
  const RankMemory shallow = AdaptedModel(2).plan(), deep = AdaptedModel(6).plan();
  const auto frozen = [](int layers) {
    const AdaptedModel model(layers);
    return model.layouts.elements() - ShardPlan(model.layouts, {.world = 1}).trained_elements(0);
  };
  EXPECT_EQ(deep.gradients, shallow.gradients);
  EXPECT_EQ(deep.optimizer, shallow.optimizer);
  EXPECT_EQ(deep.saved, shallow.saved);
  EXPECT_EQ(deep.activations, shallow.activations) << "below the lowest trained layer nothing is kept";
  EXPECT_EQ(deep.peak() - shallow.peak(), 2 * (frozen(6) - frozen(2)));
}

TEST(MemoryPlan, adapters_have_gradients_and_state_and_are_what_a_saved_step_holds) {
  const AdaptedModel model;
  const RankMemory planned = model.plan();
  const std::int64_t trained = ShardPlan(model.layouts, {.world = 1}).trained_elements(0);
  EXPECT_EQ(planned.gradients, trained * 4);
  EXPECT_EQ(planned.optimizer, trained * (2 + 4 + 4));
  EXPECT_EQ(planned.saved, trained * (2 + 2 + 4 + 4));
  EXPECT_GT(model.plan(/*drops=*/true).activations, planned.activations);
}

}  // namespace
}  // namespace sluice
