#include "base/at_place.hpp"
#include "base/bytes.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "corpus/model_tokens.hpp"
#include "corpus/source/source_form.hpp"
#include "corpus/text_survey.hpp"
#include "data/source_files.hpp"
#include "device/devices.hpp"
#include "io/file.hpp"
#include "job/answers/job_prompts.hpp"
#include "job/blueprint.hpp"
#include "job/commands/commands.hpp"
#include "job/commands/findings.hpp"
#include "job/console.hpp"
#include "job/exec_compute_program.hpp"
#include "job/export_model.hpp"
#include "job/prepare/device_choice.hpp"
#include "job/prepare/load_request.hpp"
#include "job/prepare/memory_check.hpp"
#include "job/prepare/optimizer_choice.hpp"
#include "job/prepare/options_of_job.hpp"
#include "job/prepare/save_plan.hpp"
#include "job/prepare/start_notes.hpp"
#include "job/prepare/text_tokens.hpp"
#include "job/run_directory.hpp"
#include "job/saving/resume_point.hpp"
#include "job/stored/stored_weights.hpp"
#include "job/weights.hpp"
#include "text/tokenizer.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;

struct CheckArguments {
  JobArguments job;
  int ranks = 1;
  /// Memory of one rank in bytes; nothing: what this machine has available.
  std::optional<std::int64_t> memory_bytes;
};

void print_model(const ModelDescription& model) {
  console::line("model     {}, {} ({} with experts), {} parameters, {} tensors", model.config.model_type,
                counted(model.config.layer_count(), "layer"), model.config.moe_layer_count(),
                model.manifest.parameter_count(), model.manifest.checkpoint_tensors().size());
  console::line("structure {}", model.manifest.structure_hash().hex());
}

/// Checks all ids and masks that the job reads. Error(kBadData) as SourceFiles::check().
void check_pieces(SourceFiles& files) {
  for (std::int64_t piece = 0; piece < files.check_pieces(); ++piece) files.check(piece);
}

/// Checks the tokenizer and its files, which tokenize texts.
text::Tokenizer check_text_model(const JobConfig& config) {
  text::Tokenizer tokenizer = text::Tokenizer::load(config.model.path);
  static_cast<void>(corpus::read_end_token(config.model.path, tokenizer, ""));
  return tokenizer;
}

/// Checks the front of a text, by the model's tokenizer if it has one.
void check_text(const NamedText& text, const JobConfig& config, const text::Tokenizer* tokenizer) {
  const bool is_rows = corpus::form_of_file(text.path) != corpus::SourceForm::kText;
  console::line("data      {} is {} of {}, of which the job makes tokens", text.path.string(),
                is_rows ? "rows of JSON" : "text", format_bytes(InputFile::open(text.path).size_bytes()));
  if (tokenizer == nullptr) return;
  const corpus::TextSurvey survey = corpus::survey_text(text.path, config.model.path, *tokenizer);
  const bool is_learnt = config.job.kind == JobKind::kTrain && text.key != "evaluate.tokens";
  if (is_learnt && survey.answers.endless > 0)
    log::warning("{}: {}{}", text.path.string(), survey.is_whole ? "" : "in its first MiB ",
                 endless_text(survey.answers));
}

void check_texts(const std::vector<NamedText>& texts, const JobConfig& config, Findings& findings) {
  std::optional<text::Tokenizer> tokenizer;
  if (!texts.empty()) findings.examine([&] { tokenizer.emplace(check_text_model(config)); });
  for (const NamedText& text : texts)
    findings.examine(
        [&] { at_place(text.key, [&] { check_text(text, config, tokenizer ? &*tokenizer : nullptr); }); });
}

DataIdentity check_sources(const JobConfig& config, const BatchOptions& options) {
  SourceFiles files(options);
  check_pieces(files);
  console::line("data      {}", data_text(config, files.facts()));
  return {files.mixture().sequences(), files.sample_digest(), files.whole_digest()};
}

std::optional<DataIdentity> check_trained_tokens(const JobConfig& config, std::int64_t vocab_size,
                                                 Findings& findings) {
  const BatchOptions options = batch_options(config, vocab_size);
  const auto is_text = [](const TokenSource& source) { return corpus::is_text(source.tokens); };
  std::optional<DataIdentity> data;
  if (std::ranges::none_of(options.sources, is_text)) {
    findings.examine([&] { data = check_sources(config, options); });
    return data;
  }
  // The share of each file that is read is known only when all files exist.
  for (const TokenSource& source : options.sources)
    if (!is_text(source)) findings.examine([&] { static_cast<void>(open_source(source, options.file)); });
  return data;
}

void check_held_out(const JobConfig& config, const fs::path& tokens, std::int64_t vocab_size) {
  SourceFiles files(held_out_options(config, tokens, vocab_size));
  check_pieces(files);
  console::line("held out  {}: {}, {}", tokens.string(), counted(files.facts().front().sequences, "sequence"),
                counted(files.facts().front().documents, "document"));
}

/// Checks token files and texts, held-out ones too, and prints a line for each kind. Of texts only the front
/// is read: faults behind it are found when the job tokenizes it. Returns the identity of training's token files, if
/// all of them exist.
std::optional<DataIdentity> check_token_inputs(const JobConfig& config, std::int64_t vocab_size,
                                               Findings& findings) {
  const bool trains = config.job.kind == JobKind::kTrain;
  if (!trains && config.job.kind != JobKind::kEvaluate) return std::nullopt;
  std::optional<std::vector<NamedText>> texts;
  findings.examine([&] { texts = texts_of(config); });
  if (!texts) return std::nullopt;  // a pipe or compressed file is no input of tokens
  check_texts(*texts, config, findings);
  const std::optional<DataIdentity> data = check_trained_tokens(config, vocab_size, findings);
  if (!trains || config.evaluate.every_steps == 0) return data;
  for (const fs::path& tokens : config.evaluate.tokens)
    if (!corpus::is_text(tokens)) findings.examine([&] { check_held_out(config, tokens, vocab_size); });
  return data;
}

/// Checks generate.prompts, and what answers need of the model, if the job answers prompts.
void check_prompts(const JobConfig& config, const ModelConfig& model) {
  if (!answers_prompts(config)) return;
  if (!config.generate.stop.empty()) static_cast<void>(tokenizer_for_stops(config.model.path));
  if (!config.generate.ignore_eos) static_cast<void>(read_end_tokens(config.model.path));
  const JobPrompts read = read_job_prompts(config, model);
  std::int64_t tokens = 0;
  for (const Prompt& prompt : read.prompts) tokens += std::ssize(prompt.tokens);
  console::line("prompts   {} of {} in {}", read.prompts.size(), counted(tokens, "token"),
                config.generate.prompts.string());
  if (const std::string unused = unused_keys_text(read.prompts); !unused.empty())
    console::line("prompts   {}", unused);
}

void check_written(const Blueprint& blueprint, const ShardPlan& shards) {
  if (!exports_weights(blueprint.config)) return;
  const ExportSize size = check_export(blueprint, shards);
  console::line("export    {}, {} in {}, to {}", counted(size.tensors, "tensor"), format_bytes(size.bytes),
                counted(size.files, "file"), blueprint.config.export_.path.string());
}

/// Bytes by which each rank may grow: from --memory, or memory.limit, or all that this machine has available.
std::int64_t growth_limit(const JobConfig& config, std::optional<std::int64_t> memory_bytes) {
  if (const auto told = told_growth_limit(config, memory_bytes)) return *told;
  return memory_of_this_machine(memory_pool(config)).bytes;
}

void check_saves(const Blueprint& blueprint, const ShardPlan& shards,
                 const std::optional<DataIdentity>& data) {
  const JobConfig& config = blueprint.config;
  if (config.job.kind != JobKind::kTrain) return;
  const std::vector<RankMemory> ranks = memory_on_separate_nodes(blueprint, shards);
  const std::int64_t bytes = saved_step_bytes(ranks), of_host = step_bytes_of_host(config, ranks);
  console::line("saves     {}", save_text(config, bytes));
  const bool is_apart = of_host > 0 && config.checkpoint.storage == SaveStorage::kNode;
  if (is_apart)
    console::line("          on hosts of one rank, {}",
                  hosts_text({&of_host, 1}, config.checkpoint.partner_copies));
  if (config.checkpoint.saves()) require_room_for_steps(config, is_apart ? of_host : bytes);
  const auto found = find_resume_point(config, [](const std::string& text) { log::warning("{}", text); });
  if (!found) return;
  require_same_model(*found, blueprint.model.manifest);
  if (data) require_same_data(*found, config.data, *data);
  console::line("resume    from step {}: {}", found->step.step, found->path.string());
  for (const ChangedKey& change : changed_keys(found->step.job, config))
    console::line("          {} is {}, and was {}", change.key, change.now, change.before);
}

/// Memory that a rank is assumed to have: the given one, or with GPUs that of a GPU of this machine, or all
/// that this machine has available. Nothing if a rank must have a GPU and this machine has none.
std::optional<MachineMemory> memory_of_rank(const JobConfig& config,
                                            std::optional<std::int64_t> memory_bytes) {
  if (memory_bytes) return MachineMemory{*memory_bytes, "(--memory)", ""};
  if (!wants_gpus(config)) return memory_of_this_machine(memory_pool(config));
  const Gpus gpus = list_gpus();
  if (gpus.list.empty()) return std::nullopt;
  return MachineMemory{gpus.list.front().memory_bytes, "of a GPU here", ""};
}

/// Memory of each rank on a machine of its own.
std::vector<RankMemory> planned_ranks(const Blueprint& blueprint, const ShardPlan& shards,
                                      std::optional<std::int64_t> memory_bytes) {
  return part_that_must_fit(
      memory_on_separate_nodes(blueprint, shards, growth_limit(blueprint.config, memory_bytes)),
      blueprint.config);
}

/// Checks the room for offload files, each rank's as if it had the disk for itself.
void check_disk(const Blueprint& blueprint, const ShardPlan& shards,
                std::optional<std::int64_t> memory_bytes) {
  if (blueprint.config.memory.offload != Offload::kDisk) return;
  std::int64_t most = 0;
  for (const RankMemory& rank : planned_ranks(blueprint, shards, memory_bytes))
    most = std::max(most, rank.offload.file_bytes());
  require_offload_room(blueprint.config, most);
}

/// Checks each rank against `memory_bytes`, or against this machine's memory as if the rank had it for
/// itself.
void check_memory(const Blueprint& blueprint, const ShardPlan& shards,
                  std::optional<std::int64_t> memory_bytes) {
  const std::vector<int> nodes = separate_nodes(shards.world());
  const std::optional<MachineMemory> machine = memory_of_rank(blueprint.config, memory_bytes);
  const std::vector<RankMemory> ranks = planned_ranks(blueprint, shards, memory_bytes);
  const auto most = std::ranges::max_element(ranks, {}, &RankMemory::certain);
  const auto rank = static_cast<int>(most - ranks.begin());
  if (machine) require_memory(ranks, nodes, rank, *machine);
  if (blueprint.config.memory.limit_bytes > 0) {
    const std::int64_t limit = planned_growth_limit(blueprint.config.memory.limit_bytes);
    require_growth_limits(ranks, std::vector<std::int64_t>(ranks.size(), limit));
  }
  console::line("memory    rank {} needs most: {}; with activations, an estimate, {}, of {}", rank,
                format_bytes(most->certain()), format_bytes(most->peak()),
                machine ? fmt::format("{} {}", format_bytes(machine->bytes), machine->kind)
                        : "a GPU, and this machine has none; --memory says what one has");
  if (!machine) return;
  const std::int64_t all = std::transform_reduce(ranks.begin(), ranks.end(), std::int64_t{0}, std::plus<>(),
                                                 [](const RankMemory& memory) { return memory.certain(); });
  if (!memory_bytes && !wants_gpus(blueprint.config) && all > machine->bytes)
    console::line("note      together the {} ranks need {}: more than this machine has for all of them",
                  ranks.size(), format_bytes(all));
}

void check_weights(const Blueprint& blueprint, const ShardPlan& shards) {
  const JobConfig& config = blueprint.config;
  if (config.model.init == ModelInit::kRandom)
    return console::line("weights   drawn, model.init = \"random\"");
  const PlannedLoad planned = plan_weights(blueprint, shards, separate_nodes(shards.world()));
  const LoadPlan& plan = planned.plan;
  console::line("weights   {} in {}, {} in {}", counted(std::ssize(planned.index.entries), "tensor"),
                counted(std::ssize(planned.index.files), "file"), format_bytes(plan.read_bytes()),
                counted(std::ssize(plan.chunks()), "read"));
  for (const int reader : plan.readers().readers())
    console::line("          rank {} reads {} and sends {}", reader, format_bytes(plan.read_bytes(reader)),
                  format_bytes(plan.sent_bytes(reader)));
  for (const std::string& text : ignored_text(planned.match)) console::line("          {}", text);
}

void print_ranks(const Blueprint& blueprint, const ShardPlan& shards) {
  const std::vector<std::int64_t> bytes = blueprint.shard_bytes(shards);
  for (std::size_t rank = 0; rank < bytes.size(); ++rank)
    console::line("rank {:<4} holds {} of weights", rank, format_bytes(bytes[rank]));
  if (const std::string note = stored_note(blueprint); !note.empty()) console::line("note      {}", note);
  for (const std::string& note : job_notes(blueprint.config, blueprint.model.config, shards.world()))
    console::line("note      {}", note);
}

/// The job with the optimizer mode that ranks with this memory would choose.
FittedJob fitted_job(const JobConfig& config, const CheckArguments& arguments) {
  if (!chooses_mode(config)) return {config, ""};
  const std::int64_t limit = growth_limit(config, arguments.memory_bytes);
  FittedJob job = fit_optimizer(config, arguments.ranks, limit);
  if (job.lack.empty()) console::line("{}", choice_text(job.config, limit));
  return job;
}

/// The job with the mode of the checkpoint from which it resumes, if the mode is left to be chosen.
JobConfig resumed_mode(const JobConfig& config) {
  return chooses_mode(config) ? with_saved_mode(config, find_resume_point(config)) : config;
}

/// Checks everything in the order in which a run would meet it.
Findings examine_job(const JobConfig& config, const CheckArguments& arguments) {
  Findings findings;
  std::string lack;  // reason why no optimizer mode fits the memory
  std::unique_ptr<const Blueprint> blueprint;
  std::unique_ptr<const ShardPlan> shards;
  findings.examine([&] { require_device_in_build(config.device); });
  findings.examine([&] { static_cast<void>(find_compute_program(config.job.kind)); });
  findings.examine([&] {
    FittedJob job = fitted_job(resumed_mode(config), arguments);
    lack = std::move(job.lack);
    blueprint.reset(new Blueprint(blueprint_with_stored(std::move(job.config))));
    print_model(blueprint->model);
    shards = std::make_unique<const ShardPlan>(blueprint->shard_plan(arguments.ranks));
  });
  findings.examine([&] { RunDirectory::check(config); });
  const std::optional<DataIdentity> data = check_token_inputs(
      config, blueprint ? blueprint->model.config.vocab_size : std::numeric_limits<std::int64_t>::max(),
      findings);
  if (!shards) return findings;
  findings.examine([&] { check_prompts(blueprint->config, blueprint->model.config); });
  findings.examine([&] { check_written(*blueprint, *shards); });
  findings.examine([&] { check_saves(*blueprint, *shards, data); });
  findings.examine([&] {
    if (!lack.empty()) fail(ExitCode::kTooLittle, "{}", lack);
    check_memory(*blueprint, *shards, arguments.memory_bytes);
  });
  findings.examine([&] { check_disk(*blueprint, *shards, arguments.memory_bytes); });
  findings.examine([&] { check_weights(*blueprint, *shards); });
  print_ranks(*blueprint, *shards);
  return findings;
}

/// Checks a job in this process alone, without GPU or launch, for all that a run would fail for:
/// configuration, model, place of the results, tokens, memory, the weights' headers and the plans. The exit
/// status is that of the first finding in the order in which a run would meet them.
int check_command(const CheckArguments& arguments) {
  const JobConfig config = load_job_config(arguments.job.file, arguments.job.overrides);
  const Findings findings = examine_job(config, arguments);
  const std::string job = arguments.job.file.string();
  if (findings.empty())
    console::line("{} is fine for {} rank{}", job, arguments.ranks, arguments.ranks == 1 ? "" : "s");
  else
    console::report("sluice: " + findings.text(job));
  return static_cast<int>(findings.code());
}

}  // namespace

void add_check(CommandLine& line) {
  const auto [command, arguments] = add_command<CheckArguments>(
      line, "check", "Find all that a run would fail for, without a launch", check_command);
  add_job_arguments(command, arguments.job);
  add_ranks(command, "--ranks", arguments.ranks, "Number of ranks to plan for")->capture_default_str();
  add_size(command, "--memory", arguments.memory_bytes,
           "Memory of one rank, such as 128.5GB; left out: what this machine has");
}

}  // namespace sluice
