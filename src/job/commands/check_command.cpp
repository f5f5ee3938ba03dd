#include "base/bytes.hpp"
#include "data/id_check.hpp"
#include "data/token_file.hpp"
#include "job/batch_options.hpp"
#include "job/blueprint.hpp"
#include "job/commands/commands.hpp"
#include "job/console.hpp"
#include "job/export_weights.hpp"
#include "job/job.hpp"
#include "job/run_directory.hpp"
#include "load/load_plan.hpp"
#include "weights/checkpoint_match.hpp"
#include "weights/tied_copies.hpp"

#include <filesystem>
#include <system_error>

namespace sluice {
namespace fs = std::filesystem;
namespace {

void check_checkpoint(const Blueprint& blueprint, const ShardPlan& shards) {
  const JobConfig& config = blueprint.config;
  if (config.model.init == ModelInit::kRandom)
    return console::line("weights   drawn, model.init = \"random\"");
  if (!holds_weights(config.model.path))
    return console::line("weights   none in {}: checked from config.json alone", config.model.path.string());
  const CheckpointIndex index = read_checkpoint_index(config.model.path);
  const CheckpointMatch match = match_checkpoint(index, blueprint.keys, config.model.dtype);
  require_tied_copies(index, blueprint.keys, config.model.path);
  const LoadPlan plan(index, match, shards,
                      {.arena = config.model.dtype,
                       .chunk_bytes = config.load.chunk_bytes,
                       .readers = ReaderAssignment::rank0(shards.world())});
  plan.check_coverage();
  console::line("weights   {} tensors in {} files, {} in {} reads, {} sent by rank 0", index.entries.size(),
                index.files.size(), format_bytes(plan.read_bytes()), plan.reads().size(),
                format_bytes(plan.sent_bytes(0)));
  for (const std::string& text : ignored_text(match)) console::line("          {}", text);
}

void check_written(const Blueprint& blueprint, const ShardPlan& shards) {
  if (!exports_weights(blueprint.config)) return;
  const ExportPlan plan = check_export(blueprint, shards);
  plan.check_coverage();
  console::line("export    {} tensors, {} in {} files, to {}", plan.tensor_count(),
                format_bytes(plan.file_bytes()), plan.files().size(), blueprint.config.export_.path.string());
}

void check_data(const Blueprint& blueprint) {
  const JobConfig& config = blueprint.config;
  if (config.job.kind != JobKind::kTrain && config.job.kind != JobKind::kEvaluate) return;
  std::error_code error;
  if (!fs::exists(config.data.tokens, error) && !error)
    return console::line("data      {} is not here: not checked", config.data.tokens.string());
  const BatchOptions options = batch_options(blueprint);
  const TokenFile tokens = TokenFile::open(options.tokens, options.file);
  const IdCheck ids(options.sampler(tokens.sequence_count()), options.steps, config.data.sequence_length);
  for (std::int64_t piece = 0; piece < ids.pieces(); ++piece) ids.run(tokens, piece);
  console::line("data      {} sequences of {} tokens{}", tokens.sequence_count(), config.data.sequence_length,
                tokens.marks_documents() ? ", documents kept apart" : "");
}

}  // namespace

int check_command(const JobArguments& arguments, int ranks) {
  const Blueprint blueprint(load_job_config(arguments.file, arguments.overrides));
  static_cast<void>(find_job(blueprint.config.job.kind));
  RunDirectory::check(blueprint.config);
  const ShardPlan plan = blueprint.shard_plan(ranks);
  const ModelDescription& model = blueprint.model;
  console::line("model     {}, {} layers ({} with experts), {} parameters, {} tensors",
                model.config.model_type, model.config.layer_count(), model.config.moe_layer_count(),
                model.manifest.parameter_count(), model.manifest.stored_tensors().size());
  console::line("structure {}", model.manifest.structure_hash().hex());
  check_checkpoint(blueprint, plan);
  check_data(blueprint);
  check_written(blueprint, plan);
  for (int rank = 0; rank < ranks; ++rank)
    console::line("rank {:<4} holds {} of weights", rank,
                  format_bytes(plan.arena_elements(rank) * size_of(blueprint.config.model.dtype)));
  console::line("{} is fine for {} rank{}", arguments.file.string(), ranks, ranks == 1 ? "" : "s");
  return 0;
}

}  // namespace sluice
