#include "job/plan/stored_weights.hpp"

#include "base/error.hpp"
#include "base/memory/memory.hpp"
#include "checkpoint/step_directory.hpp"
#include "comm/run_together.hpp"
#include "config/schema.hpp"
#include "device/memory.hpp"
#include "job/plan/job_plan.hpp"
#include "weights/stored_forms.hpp"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

bool is_required(const JobConfig& config) { return config.model.frozen_format != FrozenFormat::kDType; }

bool is_quantised(const JobConfig& config) { return is_quantised_by_load(config.model.frozen_format); }

bool is_possible(const JobConfig& config) {
  return is_quantised(config) ||
         ((is_required(config) || chooses_mode(config)) && config.model.init == ModelInit::kCheckpoint &&
          can_keep_stored(config.job.kind) && config.memory.offload != Offload::kDisk &&
          !is_saved_step(config.model.path));
}

void refuse_training_of(const TensorInfo& tensor) {
  fail(
      {ExitCode::kBadConfig, "job.not_for_model"},
      "model.frozen_format: found \"stored\", expected \"dtype\", because {} is quantised in the files and this job "
      "trains it: codes cannot be trained. \"stored\" is for adapters (lora.rank), or for train.freeze with every "
      "quantised tensor",
      tensor.name);
}

/// Checks that a job whose weights should stay in the files of model.path finds some that can.
void require_weights_in_files(const JobConfig& config, const StoredTensors& stored) {
  if (config.memory.offload != Offload::kSource || !stored.is_empty()) return;
  fail(
      {ExitCode::kBadConfig, "job.not_for_model"},
      "memory.offload: found \"source\", expected \"none\" or \"disk\", because {} has no frozen experts in bfloat16, "
      "FP8, INT4, MXFP4 or NVFP4 that a job of kind \"{}\" could read where they were published",
      config.model.path.string(), name_of(config.job.kind));
}

void refuse_gpu(const JobConfig& config) {
  fail({ExitCode::kBadConfig, "job.not_for_model"},
       "model.frozen_format: found \"{}\", expected \"dtype\", because codes and scales are computed with on "
       "processors alone; device.kind = \"cpu\" takes no GPU",
       name_of(config.model.frozen_format));
}

/// `stored`, unless training would change tensor `trained` of the manifest (-1: none): then nothing, or an
/// error if the job asks for stored weights.
StoredTensors unless_trained(const Blueprint& plain, int trained, StoredTensors stored) {
  if (trained < 0 || !is_training(plain.config.job.kind)) return stored;
  if (is_required(plain.config)) refuse_training_of(plain.model.manifest[trained]);
  return {};
}

StoredTensors announced_weights(const Blueprint& plain) {
  const auto quantization = read_quantization(plain.config.model.path);
  if (!quantization && may_stay_in_files(plain.config)) return plain_experts(plain.model.manifest);
  if (!quantization) return {};
  const ParameterManifest& manifest = plain.model.manifest;
  StoredTensors stored = announced_stored(*quantization, manifest);
  const auto trained = std::ranges::find_if(
      stored.ranges, [&](const StoredRange& range) { return !manifest[range.tensor].frozen; });
  const int tensor = trained == stored.ranges.end() ? -1 : trained->tensor;
  return unless_trained(plain, tensor, std::move(stored));
}

/// Refuses to quantise a quantised tensor, which would lose digits twice and save little: "stored" keeps such
/// weights.
[[noreturn]] void refuse_quantised(const Blueprint& plain, int tensor) {
  const std::string format = name_of(plain.config.model.frozen_format);
  const std::string what = tensor < 0 ? plain.config.model.path.string() : plain.model.manifest[tensor].name;
  fail(
      {ExitCode::kBadConfig, "job.not_for_model"},
      "model.frozen_format: found \"{}\", expected \"stored\", because {} is quantised as it is published, and "
      "would be rounded a second time; \"stored\" keeps it as it is. For \"{}\" all the same, export it in bfloat16 "
      "first (job.kind = \"export\")",
      format, what, format);
}

/// Matrices that the load quantises.
StoredTensors quantised_weights(const Blueprint& plain) {
  const ModelSettings& model = plain.config.model;
  const Codes codes = model.frozen_format == FrozenFormat::kInt8 ? Codes::kInt8 : Codes::kNormalFloat4;
  StoredTensors stored = quantised_matrices(plain.model.manifest, codes, is_training(plain.config.job.kind));
  if (is_saved_step(model.path)) return stored;
  if (!holds_weights(model.path)) {
    const auto quantization = read_quantization(model.path);
    if (quantization && !quantization->forms.empty()) refuse_quantised(plain, -1);
    return stored;
  }
  const CheckpointIndex index = read_checkpoint_index(model.path);
  const CheckpointMatch match = match_checkpoint(index, plain.keys, model.dtype);
  const int tensor = find_quantised(index, match, stored.tensors());
  if (tensor >= 0) refuse_quantised(plain, tensor);
  return stored;
}

StoredTensors published_weights(const Blueprint& plain) {
  if (is_quantised(plain.config)) return quantised_weights(plain);
  if (!holds_weights(plain.config.model.path)) return announced_weights(plain);
  CheckpointIndex index = read_checkpoint_index(plain.config.model.path);
  const CheckpointMatch match = match_checkpoint(index, plain.keys, plain.config.model.dtype);
  if (may_stay_in_files(plain.config)) encode_plain_experts(index, match, plain.model.manifest);
  return unless_trained(plain, find_trained_quantised(index, match, plain.model.manifest),
                        find_stored(index, match, plain.model.manifest));
}

}  // namespace

bool can_keep_stored(JobKind kind) { return kind != JobKind::kExport; }

bool may_stay_in_files(const JobConfig& config) {
  if (config.memory.offload != Offload::kNone || !chooses_mode(config) || is_quantised(config))
    return config.memory.offload == Offload::kSource;
  return config.load.readers != Readers::kRank0 && config.parallel.expert_parallel == 0;
}

StoredTensors kept_as_stored(const JobConfig& config, const StoredTensors& stored) {
  if (!is_required(config)) return {};
  return config.memory.offload == Offload::kSource ? stored : stored.quantised();
}

StoredTensors stored_weights(Communicator& comm, const Blueprint& plain, MemoryKind memory) {
  if (!is_possible(plain.config)) {
    require_weights_in_files(plain.config, {});
    return {};
  }
  if (memory == MemoryKind::kDevice) {
    if (is_required(plain.config)) refuse_gpu(plain.config);
    return {};
  }
  StoredTensors stored = StoredTensors::from_bytes(share_from_root(comm, [&] {
    const StoredTensors published = published_weights(plain);
    require_weights_in_files(plain.config, published);
    return published.to_bytes();
  }));
  give_back_free_heap();  // frees the headers of the files, which are megabytes of JSON for many tensors
  return stored;
}

std::string stored_note(const Blueprint& blueprint) {
  if (!is_required(blueprint.config) || !blueprint.stored.is_empty()) return "";
  if (is_quantised(blueprint.config))
    return "model.frozen_format asks for quantised weights, and this job trains all matrices: codes cannot be trained, and "
           "all weights are kept as model.dtype says";
  return "model.frozen_format is \"stored\", and none of the weights that this job keeps is quantised: all weights are kept as "
         "model.dtype says";
}

}  // namespace sluice
