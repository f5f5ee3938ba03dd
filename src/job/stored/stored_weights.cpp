#include "job/stored/stored_weights.hpp"

#include "base/error.hpp"
#include "base/memory.hpp"
#include "checkpoint/step_directory.hpp"
#include "comm/run_together.hpp"
#include "device/memory.hpp"
#include "job/prepare/optimizer_choice.hpp"
#include "weights/stored_forms.hpp"

#include <utility>

namespace sluice {
namespace {

bool is_required(const JobConfig& config) { return config.model.frozen_format == FrozenFormat::kStored; }

bool is_possible(const JobConfig& config) {
  return (is_required(config) || chooses_mode(config)) && config.model.init == ModelInit::kCheckpoint &&
         can_keep_stored(config.job.kind) && config.memory.offload == Offload::kNone &&
         !is_saved_step(config.model.path);
}

void refuse_training_of(const TensorInfo& tensor) {
  fail(
      ExitCode::kBadConfig,
      "model.frozen_format: found \"stored\", expected \"dtype\", because {} is quantised in the files and this job "
      "trains it: codes cannot be trained. \"stored\" is for adapters (lora.rank), or for train.freeze with every "
      "quantised tensor",
      tensor.name);
}

void refuse_gpu() {
  fail(
      ExitCode::kBadConfig,
      "model.frozen_format: found \"stored\", expected \"dtype\", because codes and scales are computed with on "
      "processors alone; device.kind = \"cpu\" takes no GPU");
}

StoredTensors published_weights(const Blueprint& plain) {
  const JobConfig& config = plain.config;
  const ParameterManifest& manifest = plain.model.manifest;
  if (!holds_weights(config.model.path)) {
    const auto quantization = read_quantization(config.model.path);
    return quantization ? announced_stored(*quantization, manifest) : StoredTensors();
  }
  const CheckpointIndex index = read_checkpoint_index(config.model.path);
  const CheckpointMatch match = match_checkpoint(index, plain.keys, config.model.dtype);
  const int trained =
      config.job.kind == JobKind::kTrain ? find_trained_quantised(index, match, manifest) : -1;
  if (trained < 0) return find_stored(index, match, manifest);
  if (is_required(config)) refuse_training_of(manifest[trained]);
  return {};
}

}  // namespace

bool can_keep_stored(JobKind kind) { return kind != JobKind::kExport; }

StoredTensors stored_weights(const Blueprint& plain) {
  if (!is_possible(plain.config)) return {};
  if (compute_memory() != MemoryKind::kDevice) return published_weights(plain);
  if (is_required(plain.config)) refuse_gpu();
  return {};
}

StoredTensors stored_weights(Communicator& comm, const Blueprint& plain) {
  if (!is_possible(plain.config)) return {};
  StoredTensors stored =
      StoredTensors::from_bytes(share_from_root(comm, [&] { return stored_weights(plain).to_bytes(); }));
  give_back_free_heap();  // headers of many tensors are megabytes of JSON
  return stored;
}

Blueprint blueprint_with_stored(JobConfig config) {
  StoredTensors stored;
  if (is_required(config)) stored = stored_weights(Blueprint(config));
  return Blueprint(std::move(config), std::move(stored));
}

std::string stored_note(const Blueprint& blueprint) {
  if (!is_required(blueprint.config) || !blueprint.stored.is_empty()) return "";
  return "model.frozen_format is \"stored\", and none of the weights that this job keeps is quantised: all weights are kept as "
         "model.dtype says";
}

}  // namespace sluice
