#include "plan/memory_plan.hpp"

#include "base/bytes.hpp"
#include "base/range.hpp"
#include "plan/activation_plan.hpp"
#include "plan/optimizer_memory.hpp"

namespace sluice {
namespace {

/// Kernels that the matrix library compiles, and what the heap keeps between blocks in use, which grows with
/// the blocks: measured, with activations of 20 to 800 MiB.
std::int64_t runtime_bytes(std::int64_t activations) {
  constexpr std::int64_t kMin = 48 * kMiB, kFixed = 16 * kMiB, kGapsPercent = 22;
  return std::max(kMin, kFixed + activations / 100 * kGapsPercent);
}

/// The first micro-batch is the largest.
TokenLoad token_load(const ParallelDims& dims, const JobConfig& job, int rank) {
  const auto sequences = [&](int of) {
    return equal_part(job.train.batch_sequences, dims.world, of).count();
  };
  TokenLoad load{.own_sequences = sequences(rank), .group_ranks = dims.expert_parallel, .group_sequences = 0};
  const int first = dims.group(rank) * dims.expert_parallel;
  for (int other = first; other < first + dims.expert_parallel; ++other)
    load.group_sequences += std::min(sequences(other), job.train.micro_batch_sequences);
  return load;
}

}  // namespace

std::array<std::pair<std::string_view, std::int64_t>, 8> RankMemory::parts() const {
  return {{{"weights", weights},
           {"gradients", gradients},
           {"optimizer", optimizer},
           {"gather_buffers", gather_buffers},
           {"gradient_buffer", gradient_buffer},
           {"activations", activations},
           {"runtime", runtime},
           {"staging", staging}}};
}

std::array<std::pair<std::string_view, std::int64_t>, 4> RankMemory::phases() const {
  const bool trains = gradients > 0;
  return {{{"load", load_total()},
           {"forward", forward_activations > 0 ? standing() + forward_activations : 0},
           {"backward", trains ? compute_total() : 0},
           {"update", trains ? standing() : 0}}};
}

std::vector<RankMemory> plan_memory(const ModelConfig& model, const ShardPlan& plan, const StagePlan& stages,
                                    const JobConfig& job, int ring_slots) {
  const std::int64_t size = size_of(job.model.dtype);
  const bool trains = job.job.kind == JobKind::kTrain;
  const bool computes = trains || job.job.kind == JobKind::kEvaluate;
  std::vector<RankMemory> ranks;
  for (int rank = 0; rank < plan.world(); ++rank) {
    RankMemory& memory = ranks.emplace_back();
    const std::int64_t elements = plan.arena_elements(rank);
    if (job.load.sink == LoadSink::kShards) memory.weights = elements * size;
    if (job.model.init == ModelInit::kCheckpoint) memory.staging = ring_slots * job.load.chunk_bytes;
    if (!computes) continue;
    const ActivationBytes activations = plan_activations(model, job, token_load(plan.dims(), job, rank));
    memory.forward_activations = activations.forward;
    memory.activations = std::max(activations.forward, activations.backward);
    memory.gather_buffers =
        (stages.neighbouring_dense_elements(plan, rank) + stages.expert_elements(plan, rank)) * size;
    memory.runtime = runtime_bytes(memory.activations);
    if (!trains) continue;
    memory.gradients = elements * size_of(DType::kFloat32);
    memory.optimizer = elements * adamw_bytes_per_element(job.model.dtype);
    memory.gradient_buffer = stages.gradient_elements(plan, rank) * size_of(DType::kFloat32);
  }
  return ranks;
}

}  // namespace sluice
