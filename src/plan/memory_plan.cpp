#include "plan/memory_plan.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/range.hpp"
#include "base/teacher_row.hpp"
#include "plan/activation_plan.hpp"
#include "plan/answer_memory.hpp"
#include "plan/gradient_memory.hpp"
#include "plan/offload.hpp"
#include "plan/optimizer_bytes.hpp"

namespace sluice {
namespace {

/// Bytes that oneDNN after 3.7 keeps for its kernels beyond earlier versions: 258 kB per kernel instead of
/// 122 kB, for some 220 kernels, the most that experts with any number of rows need.
#ifdef SLUICE_LARGE_KERNELS
constexpr std::int64_t kLargeKernels = 36 * kMiB;
#else
constexpr std::int64_t kLargeKernels = 0;
#endif

/// Bytes of kernels that the matrix library compiles, and of gaps that the heap keeps between blocks, which
/// grow with the blocks: measured with activations of 20 to 800 MiB.
std::int64_t runtime_bytes(std::int64_t activations) {
  constexpr std::int64_t kMin = 48 * kMiB, kFixed = 16 * kMiB, kGapsPercent = 22;
  return kLargeKernels + std::max(kMin, kFixed + activations / 100 * kGapsPercent);
}

/// Tokens of the first micro-batch, which is the largest. A job that answers prompts takes one row of tokens
/// per rank through the model at a time.
TokenLoad token_load(const ParallelDims& dims, const Workload& work, int rank) {
  if (work.answers && !work.trains)
    return {.own_sequences = 1,
            .group_ranks = dims.expert_parallel,
            .group_sequences = dims.expert_parallel,
            .tokens = dims.wire.tokens};
  const auto sequences = [&](int of) { return equal_part(work.batch_sequences, dims.ranks(), of).count(); };
  // The first ranks have one sequence more than the others, unless all have as many.
  const std::int64_t least = sequences(dims.ranks() - 1),
                     with_more = work.batch_sequences - least * dims.ranks();
  const std::int64_t first = std::int64_t{dims.group(rank)} * dims.expert_parallel;
  const std::int64_t more = std::clamp<std::int64_t>(with_more - first, 0, dims.expert_parallel);
  return {.own_sequences = sequences(rank),
          .group_ranks = dims.expert_parallel,
          .group_sequences = more * std::min(least + 1, work.micro_batch_sequences) +
                             (dims.expert_parallel - more) * std::min(least, work.micro_batch_sequences),
          .tokens = dims.wire.tokens};
}

/// Adds the ranks of the set, which have embedding and head between them.
void share_vocabulary(const ParallelDims& dims, const Workload& work, int rank, TokenLoad& load) {
  load.vocabulary_ranks = dims.world;
  const int first = dims.set(rank) * dims.world;
  for (int other = first; other < first + dims.world; ++other)
    load.vocabulary_sequences += equal_part(work.batch_sequences, dims.ranks(), other).count();
}

/// Bytes per token of ids and document marks, which a file may turn out to have.
constexpr std::int64_t kTokenBytes = sizeof(std::int64_t) + 1;
/// Bytes per token of a micro-batch's inputs and targets.
constexpr std::int64_t kTokenPairBytes = 2 * sizeof(std::int64_t);
/// Bytes of a token's loss in an evaluation.
constexpr std::int64_t kLossBytes = sizeof(double);

/// Bytes of a token's place in its file and of its distribution.
std::int64_t distribution_bytes(const Workload& work) {
  if (work.distribution_tokens == 0) return 0;
  return std::int64_t{sizeof(std::int64_t)} + teacher_row_bytes(work.distribution_tokens);
}

/// Bytes of the tokens of a step, each sequence with one target more than inputs, of its pairs, and in an evaluation of
/// their losses: every rank has its own share, and rank 0 also the whole batch and the documents that it
/// packs.
std::int64_t batch_bytes(const Workload& work, int rank, std::int64_t own_sequences) {
  if (work.answers && !work.trains)
    return work.answers->sequences * work.answers->positions * std::int64_t{sizeof(std::int64_t)};
  const std::int64_t held = own_sequences + (rank == 0 ? work.batch_sequences : 0);
  const std::int64_t losses = work.trains && !work.evaluates ? 0 : held * work.pass_length * kLossBytes;
  return held * (work.pass_length + 1) * kTokenBytes + own_sequences * work.pass_length * kTokenPairBytes +
         held * (work.pair_bytes + work.pass_length * distribution_bytes(work)) + losses +
         (rank == 0 ? work.packing_bytes : 0);
}

/// Bytes that saving takes besides what is saved: blocks in flight, and a copy of the largest unit, which may
/// change before it is written.
std::int64_t save_buffers(const ShardPlan& plan, std::span<const std::int64_t> state_bytes, int rank,
                          const Workload& work) {
  std::int64_t largest = 0;
  for (int unit = 0; unit < static_cast<int>(state_bytes.size()); ++unit) {
    if (!plan.is_trained(unit)) continue;
    const DType dtype = unit == plan.whole_unit() ? DType::kFloat32 : work.dtype;
    largest = std::max<std::int64_t>(largest, plan.owned(unit, rank).count() * size_of(dtype) +
                                                  state_bytes[static_cast<std::size_t>(unit)]);
  }
  return work.save_staging_bytes > 0 ? work.save_staging_bytes + largest : 0;
}

/// Bytes of all stored units on one rank.
std::int64_t stored_on(const std::vector<std::vector<StoredBytes>>& own, int rank) {
  std::int64_t bytes = 0;
  for (const std::vector<StoredBytes>& ranks : own) bytes += ranks[static_cast<std::size_t>(rank)].all();
  return bytes;
}

/// Bytes of codes and scales of each unit on all ranks of a place together, [unit][place]. Dense units are
/// counted at place 0.
std::vector<std::vector<std::int64_t>> stored_by_place(const ShardPlan& plan,
                                                       const std::vector<std::vector<StoredBytes>>& own) {
  std::vector<std::vector<std::int64_t>> held(own.size());
  for (std::size_t unit = 0; unit < own.size(); ++unit) {
    held[unit].resize(static_cast<std::size_t>(plan.dims().expert_parallel));
    const bool has_experts = plan.has_experts(static_cast<int>(unit));
    for (int rank = 0; rank < plan.world(); ++rank)
      held[unit][static_cast<std::size_t>(has_experts ? plan.dims().place(rank) : 0)] +=
          own[unit][static_cast<std::size_t>(rank)].all();
  }
  return held;
}

/// Bytes of codes and scales of each unit that `rank` holds while the unit is gathered: its own shard and
/// those of the ranks that share the unit.
std::vector<std::int64_t> held_stored(const ShardPlan& plan,
                                      const std::vector<std::vector<std::int64_t>>& by_place, int rank) {
  std::vector<std::int64_t> held;
  for (int unit = 0; unit < static_cast<int>(by_place.size()); ++unit)
    held.push_back(by_place[static_cast<std::size_t>(unit)]
                           [static_cast<std::size_t>(plan.has_experts(unit) ? plan.dims().place(rank) : 0)]);
  return held;
}

/// Offloads to a disk, if there is one, what exceeds the limit.
void offload(const ShardPlan& plan, std::span<const std::int64_t> state_bytes, int rank, const Workload& work,
             RankMemory& memory) {
  if (!work.offload_above || work.offloads_to_source || !work.keeps_weights) return;
  memory.offload = plan_offload(plan, state_bytes, rank, work, memory.peak() - *work.offload_above);
  memory.weights -= memory.offload.weight_bytes;
  memory.optimizer -= memory.offload.state_bytes;
  if (work.computes) memory.offload_buffers = memory.offload.buffer_bytes;
}

/// Leaves the codes of experts in their files, for the least number of layers that suffices, the same layers
/// on all ranks.
void leave_in_files(const ShardPlan& plan, const std::vector<std::vector<StoredBytes>>& stored,
                    const Workload& work, std::vector<RankMemory>& ranks) {
  if (!work.offload_above || !work.offloads_to_source || !work.keeps_weights) return;
  const std::vector<RankMemory> all_in_memory = ranks;
  const auto fits = [&] {
    return std::ranges::all_of(ranks,
                               [&](const RankMemory& rank) { return rank.peak() <= *work.offload_above; });
  };
  const auto leave = [&](int layers) {
    for (int rank = 0; rank < plan.dims().ranks(); ++rank) {
      RankMemory& memory = ranks[static_cast<std::size_t>(rank)];
      memory = all_in_memory[static_cast<std::size_t>(rank)];
      memory.offload = plan_source(plan, stored, plan.dims().member(rank), layers, work);
      memory.weights -= memory.offload.weight_bytes;
      memory.offload_buffers = memory.offload.buffer_bytes;
    }
  };
  int fewest = 1, most = layers_in_files(plan);
  if (most == 0 || fits()) return;
  while (fewest < most) {
    const int middle = (fewest + most) / 2;
    leave(middle);
    if (fits())
      most = middle;
    else
      fewest = middle + 1;
  }
  leave(most);
}

}  // namespace

std::array<std::pair<std::string_view, std::int64_t>, 13> RankMemory::parts() const {
  return {{{"weights", weights},
           {"gradients", gradients},
           {"optimizer", optimizer},
           {"gather_buffers", gather_buffers},
           {"kept_weights", kept_weights},
           {"gradient_buffer", gradient_buffer},
           {"batch", batch},
           {"cache", cache},
           {"activations", activations},
           {"runtime", runtime},
           {"offload_buffers", offload_buffers},
           {"save_buffers", save_buffers},
           {"staging", staging}}};
}

std::array<std::pair<std::string_view, std::int64_t>, 4> RankMemory::phases() const {
  const bool trains = gradients > 0;
  return {{{"load", load_total()},
           {"forward", forward_activations > 0 ? standing() + forward_activations : 0},
           {"backward", trains ? compute_total() : 0},
           {"update", trains ? standing() : 0}}};
}

RankMemory RankMemory::on_gpu() const {
  RankMemory there = *this;
  there.batch = there.save_buffers = there.staging = 0;
  return there;
}

RankMemory RankMemory::beside_gpu() const {
  RankMemory here;
  here.batch = batch;
  here.save_buffers = save_buffers;
  here.staging = staging;
  return here;
}

std::vector<RankMemory> plan_memory(const ModelConfig& model, const ParameterManifest& manifest,
                                    const ShardPlan& plan, const StagePlan& stages, const Workload& work,
                                    std::span<const std::int64_t> staging_bytes,
                                    const StoredTensors& stored) {
  SLUICE_ASSERT(std::ssize(staging_bytes) == plan.dims().ranks(),
                "staging is given for {} ranks, but there are shards for {}", staging_bytes.size(),
                plan.dims().ranks());
  const std::int64_t size = size_of(work.dtype);
  const ExpertGradients experts =
      expert_gradients(plan.dims(), work.batch_sequences, work.micro_batch_sequences);
  const TrainedParts trained =
      trained_parts(manifest, work, work.trains ? stages.lowest_trained_layer(plan) : -1);
  const OptimizerBytes optimizer(manifest, plan, work.optimizer, work.dtype);
  const std::vector<std::vector<StoredBytes>> own_stored = stored_bytes(plan, stored);
  const std::vector<std::vector<std::int64_t>> held = stored_by_place(plan, own_stored);
  std::vector<RankMemory> ranks;
  for (int rank = 0; rank < plan.dims().ranks(); ++rank) {
    RankMemory& memory = ranks.emplace_back();
    const int member = plan.dims().member(rank);
    const std::int64_t elements = plan.arena_elements(member);
    if (work.keeps_weights)
      memory.weights = elements * size + plan.layouts().buffer_elements() * size_of(DType::kFloat32) +
                       stored_on(own_stored, member);
    memory.staging = staging_bytes[static_cast<std::size_t>(rank)];
    if (!work.computes) {
      offload(plan, {}, member, work, memory);
      continue;
    }
    TokenLoad load = token_load(plan.dims(), work, rank);
    if (plan.is_by_rows(stages.embed.units.front())) share_vocabulary(plan.dims(), work, rank, load);
    memory.batch = batch_bytes(work, rank, load.own_sequences);
    ActivationBytes activations = plan_activations(model, work, load, trained);
    if (work.answers) {
      const AnswerMemory answers = plan_answers(model, *work.answers, plan.dims().ranks(), work.dtype);
      memory.cache = answers.cache;
      activations.forward += answers.activations;
    }
    memory.forward_activations = activations.forward;
    memory.activations = std::max(activations.forward, activations.backward);
    const GatherBytes gathered = stages.gather_bytes(plan, member, size, held_stored(plan, held, member));
    memory.gather_buffers = gathered.dense + gathered.experts +
                            (largest_stored_expert(plan, member) + largest_stored_dense(plan)) * size;
    memory.kept_weights = gathered.kept;
    memory.runtime = runtime_bytes(memory.activations);
    if (!work.trains) {
      offload(plan, {}, member, work, memory);
      continue;
    }
    memory.gradients = plan_gradients(plan, stages, member, work.optimizer.gradients, experts).all();
    const std::vector<std::int64_t> state_bytes = optimizer.of_units(member);
    memory.optimizer = sum(state_bytes);
    if (plan.dims().set(rank) == 0)  // which saves for all sets
      // Float32 parameters and their state are saved by the first rank.
      memory.saved = plan.trained_elements(member) * size + memory.optimizer +
                     (member == 0 ? plan.layouts().trained_buffers.count() * size_of(DType::kFloat32)
                                  : -state_bytes.back());
    memory.gradient_buffer = stages.gradient_elements(plan, member) * size_of(DType::kFloat32);
    memory.save_buffers = save_buffers(plan, state_bytes, member, work);
    offload(plan, state_bytes, member, work, memory);
  }
  leave_in_files(plan, own_stored, work, ranks);
  return ranks;
}

}  // namespace sluice
