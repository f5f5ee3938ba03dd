#include "job/prepare/workload.hpp"

#include "checkpoint/save.hpp"
#include "data/packed_window.hpp"
#include "device/memory.hpp"
#include "job/prepare/device_choice.hpp"

#include <algorithm>
#include <iterator>

namespace sluice {

Workload workload_of(const JobConfig& config, MemoryKind memory, std::optional<std::int64_t> growth_limit) {
  Workload work;
  set_kind(work, config.job.kind);
  work.keeps_weights = config.load.sink == LoadSink::kShards;
  work.dtype = config.model.dtype;
  work.pass_length = config.data.sequence_length;
  work.batch_sequences = config.train.batch_sequences;
  work.micro_batch_sequences = config.train.micro_batch_sequences;
  if (config.job.kind == JobKind::kGenerate) {
    work.pass_length = config.generate.prefill_tokens;
    work.batch_sequences = config.generate.batch_sequences;  // no more ranks than this have a sequence
    work.micro_batch_sequences = 1;
    work.answers = {config.generate.batch_sequences, config.generate.max_sequence_length};
  }
  if (work.trains && config.generate.every_steps > 0)
    work.answers = {config.generate.batch_sequences, config.generate.max_sequence_length};
  if (work.trains && config.data.pack)
    work.packing_bytes = config.data.pack_window * PackedWindow::kDocumentBytes *
                         std::max<std::int64_t>(1, std::ssize(config.data.source));
  work.threads = config.parallel.threads;
  work.on_device = memory == MemoryKind::kDevice;
  work.optimizer = config.optimizer.mode();
  work.has_z_loss = work.trains && config.train.router_z_loss > 0;
  work.evaluates = work.trains && config.evaluate.every_steps > 0;
  if (config.checkpoint.saves())
    work.save_staging_bytes =
        kSaveStagingBytes + (config.memory.offload == Offload::kDisk ? kSavedBlockBytes : 0) +
        (config.checkpoint.storage == SaveStorage::kNode ? copies_taken_bytes(config) : 0);
  set_recompute(work, config.train.recompute);
  if (config.memory.offload != Offload::kNone && growth_limit)
    work.offload_above = usable_bytes(*growth_limit);
  work.offloads_to_source = config.memory.offload == Offload::kSource;
  return work;
}

std::int64_t copies_taken_bytes(const JobConfig& config) {
  const CheckpointSettings& settings = config.checkpoint;
  const bool keeps_any =
      settings.saves() && settings.storage != SaveStorage::kShared && settings.partner_copies > 0;
  return keeps_any ? kCopyTakenBytes : 0;
}

void set_recompute(Workload& work, Recompute recompute) {
  work.keeps_attention = recompute != Recompute::kAll;
  work.keeps_graphs = recompute == Recompute::kNone;
}

void set_kind(Workload& work, JobKind kind) {
  work.trains = kind == JobKind::kTrain;
  work.computes = work.trains || kind == JobKind::kEvaluate || kind == JobKind::kGenerate;
  work.keeps_weights = true;
}

}  // namespace sluice
