#include "job/plan/workload.hpp"

#include "base/byte_stream.hpp"
#include "checkpoint/save.hpp"
#include "comm/outcome.hpp"
#include "comm/run_together.hpp"
#include "data/batch.hpp"
#include "data/packed_window.hpp"
#include "data/score_file.hpp"
#include "job/plan/job_plan.hpp"
#include "job/prepare/save_plan.hpp"

#include <algorithm>
#include <iterator>
#include <string>

namespace sluice {
namespace {

/// Staging bytes of a rank that saves: of its own file, and of the copy of another host's that it may receive
/// meanwhile.
std::int64_t save_staging_bytes(const JobConfig& config, const Machine& machine) {
  if (!config.checkpoint.saves()) return 0;
  const bool may_copy = partner_copies(config) > 0 && may_save_apart(config, machine);
  return kSaveStagingBytes + (config.memory.offload == Offload::kDisk ? kSavedBlockBytes : 0) +
         (may_copy ? kCopyTakenBytes : 0);
}

/// Bytes of the pairs of one sequence, with 8 bytes an answer of the reference's log-probabilities. A document has at
/// least two tokens.
std::int64_t pair_bytes(const DataSettings& data) {
  const std::int64_t pairs = data.pack ? std::max<std::int64_t>(1, data.sequence_length / 4) : 1;
  return pairs * std::int64_t{sizeof(PreferencePair)};
}

}  // namespace

std::int64_t teacher_tokens(Communicator& comm, const JobConfig& config) {
  const std::string found = share_from_root(comm, [&] {
    std::int64_t tokens = 0;
    for (const std::filesystem::path& path : config.distil.teacher)
      static_cast<void>(
          outcome_of([&] { tokens = std::max(tokens, ScoreFile::open(path).key().distribution_tokens); }));
    ByteWriter out;
    out.number(tokens);
    return out.take();
  });
  return ByteReader(found).number();
}

Workload workload_of(const JobConfig& config, const Machine& machine, std::int64_t teacher_tokens) {
  Workload work;
  work.trains = is_training(config.job.kind);
  work.computes = work.trains || evaluates_tokens(config.job.kind) || config.job.kind == JobKind::kGenerate;
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
  const bool prefers = config.job.kind == JobKind::kPrefer;
  if ((work.trains && (config.data.pack || prefers)) || config.job.kind == JobKind::kScore)
    work.packing_bytes = config.data.pack_window * PackedWindow::kDocumentBytes *
                         std::max<std::int64_t>(1, std::ssize(config.data.source));
  work.threads = machine.threads;
  work.on_device = machine.device.memory() == MemoryKind::kDevice;
  work.optimizer = config.optimizer.mode();
  const bool clips_all = config.optimizer.clip == ClipRule::kGlobal && config.optimizer.max_grad_norm > 0;
  work.backward_passes = config.optimizer.gradients == GradientMode::kRelease && clips_all ? 2 : 1;
  work.has_z_loss = work.trains && config.train.router_z_loss > 0;
  work.has_reference = prefers && config.prefer.walks_reference();
  if (config.job.kind == JobKind::kScore) {
    work.distribution_tokens = config.score.distribution_tokens();
    work.draws_distribution = config.score.distribution == ScoreDistribution::kSampled;
  }
  if (config.job.kind == JobKind::kTrain) work.distribution_tokens = teacher_tokens;
  const bool scores_start = prefers && config.prefer.refers_to(PreferenceReference::kStart);
  work.evaluates = work.trains && (config.evaluate.every_steps > 0 || scores_start);
  if (prefers) work.pair_bytes = pair_bytes(config.data);
  work.save_staging_bytes = save_staging_bytes(config, machine);
  work.keeps_attention = config.train.recompute != Recompute::kAll;
  work.keeps_graphs = config.train.recompute == Recompute::kNone;
  if (config.memory.offload != Offload::kNone) work.offload_above = usable_bytes(machine.smallest_limit());
  work.offloads_to_source = config.memory.offload == Offload::kSource;
  return work;
}

bool may_save_apart(const JobConfig& config, const Machine& machine) {
  const CheckpointSettings& settings = config.checkpoint;
  return is_training(config.job.kind) && settings.saves() && settings.storage != SaveStorage::kShared &&
         machine.has_several_nodes();
}

}  // namespace sluice
