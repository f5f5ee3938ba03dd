#include "base/at_place.hpp"
#include "base/bytes.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "corpus/model_tokens.hpp"
#include "corpus/source/source_form.hpp"
#include "corpus/text_survey.hpp"
#include "data/score_file.hpp"
#include "data/source_files.hpp"
#include "io/file.hpp"
#include "job/answers/job_prompts.hpp"
#include "job/commands/commands.hpp"
#include "job/commands/findings.hpp"
#include "job/exec_compute_program.hpp"
#include "job/export_model.hpp"
#include "job/plan/job_plan.hpp"
#include "job/plan/plan_checks.hpp"
#include "job/plan/plan_json.hpp"
#include "job/plan/resume_point.hpp"
#include "job/plan/stored_weights.hpp"
#include "job/prepare/device_choice.hpp"
#include "job/prepare/load_request.hpp"
#include "job/prepare/memory_check.hpp"
#include "job/prepare/options_of_job.hpp"
#include "job/prepare/save_plan.hpp"
#include "job/prepare/score_key.hpp"
#include "job/prepare/start_notes.hpp"
#include "job/run_directory.hpp"
#include "job/text_tokens.hpp"
#include "job/weights.hpp"
#include "process/console.hpp"
#include "text/tokenizer.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
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
  MachineArguments machine;
  bool json = false;
};

/// An examination of a job: its faults, and lines about what was found, which are not printed beside JSON.
struct Examination {
  bool is_quiet = false;
  Findings findings{};
  std::optional<JobPlan> plan{};  ///< nothing if none can be made

  template <class... Values>
  void line(fmt::format_string<Values...> text, Values&&... values) const {
    if (!is_quiet) console::line(text, std::forward<Values>(values)...);
  }
};

void tell_model(const Examination& job) {
  const ModelDescription& model = job.plan->blueprint->model;
  job.line("model     {}, {} ({} with experts), {} parameters, {} tensors", model.config.model_type,
           counted(model.config.layer_count(), "layer"), model.config.moe_layer_count(),
           model.manifest.parameter_count(), model.manifest.checkpoint_tensors().size());
  job.line("structure {}", model.manifest.structure_hash().hex());
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
void check_text(const Examination& job, const NamedText& text, const JobConfig& config,
                const text::Tokenizer* tokenizer) {
  const bool is_rows = corpus::form_of_file(text.path) != corpus::SourceForm::kText;
  job.line("data      {} is {} of {}, of which the job makes tokens", text.path.string(),
           is_rows ? "rows of JSON" : "text", format_bytes(InputFile::open(text.path).size_bytes()));
  if (tokenizer == nullptr) return;
  const corpus::TextSurvey survey =
      corpus::survey_text(text.path, config.model.path, *tokenizer, row_options(config));
  const bool is_learnt = is_training(config.job.kind) && text.key != "evaluate.tokens";
  if (is_learnt && survey.answers.endless > 0)
    log::warning("{}: {}{}", text.path.string(), survey.is_whole ? "" : "in its first MiB ",
                 endless_text(survey.answers));
}

void check_texts(Examination& job, const std::vector<NamedText>& texts, const JobConfig& config) {
  Findings& findings = job.findings;
  std::optional<text::Tokenizer> tokenizer;
  if (!texts.empty()) findings.examine([&] { tokenizer.emplace(check_text_model(config)); });
  for (const NamedText& text : texts)
    findings.examine([&] {
      at_place(text.key, [&] { check_text(job, text, config, tokenizer ? &*tokenizer : nullptr); });
    });
}

/// Checks the scores of pairs under prefer.reference, if it names files of them.
void check_reference(const Examination& job, const JobConfig& config, SourceFiles& files) {
  if (config.job.kind != JobKind::kPrefer || !config.prefer.refers_to(PreferenceReference::kScores)) return;
  if (!job.plan) return;
  files.take_reference(reference_options(job.plan->blueprint->model, config.prefer.reference.files), [] {});
}

DataIdentity check_sources(const Examination& job, const JobConfig& config, const BatchOptions& options) {
  SourceFiles files(options);
  check_pieces(files);
  job.line("data      {}", data_text(config, files.facts()));
  check_reference(job, config, files);
  if (files.teacher().width > 0) job.line("teacher   {}", teacher_text(config.distil, files.teacher()));
  if (config.job.kind == JobKind::kScore) {
    if (job.plan && !config.job.overwrite)
      require_same_scores(config.job.output / config.score.file,
                          score_key(job.plan->config(), job.plan->blueprint->model, files.file(0), [] {}));
    const std::int64_t documents = files.facts().front().documents, tokens = files.file(0).token_count();
    job.line("scores    {} of {}, to {}", format_bytes(score_bytes(documents, tokens, config.score)),
             counted(documents, "document"), (config.job.output / config.score.file).string());
  }
  return {files.mixture().sequences(), files.sample_digest(), files.whole_digest()};
}

std::optional<DataIdentity> check_trained_tokens(Examination& job, const JobConfig& config,
                                                 std::int64_t vocab_size) {
  Findings& findings = job.findings;
  const BatchOptions options = batch_options(config, vocab_size);
  const auto is_text = [](const TokenSource& source) { return corpus::is_text(source.tokens); };
  std::optional<DataIdentity> data;
  if (std::ranges::none_of(options.sources, is_text)) {
    findings.examine([&] { data = check_sources(job, config, options); });
    return data;
  }
  // The share of each file that is read is known only when all files exist.
  for (const TokenSource& source : options.sources)
    if (!is_text(source)) findings.examine([&] { static_cast<void>(open_source(source, options.file)); });
  return data;
}

void check_held_out(const Examination& job, const JobConfig& config, const fs::path& tokens,
                    std::int64_t vocab_size) {
  SourceFiles files(held_out_options(config, tokens, vocab_size));
  check_pieces(files);
  check_reference(job, config, files);
  job.line("held out  {}: {}, {}", tokens.string(), counted(files.facts().front().sequences, "sequence"),
           counted(files.facts().front().documents, "document"));
}

/// Checks token files and texts, held-out ones too, and prints a line for each kind. Of texts only the front
/// is read: faults behind it are found when the job tokenizes it. Returns the identity of training's token files, if
/// all of them exist.
std::optional<DataIdentity> check_token_inputs(Examination& job, const JobConfig& config) {
  Findings& findings = job.findings;
  const std::int64_t vocab_size =
      job.plan ? job.plan->blueprint->model.config.vocab_size : std::numeric_limits<std::int64_t>::max();
  const bool trains = is_training(config.job.kind);
  if (!trains && !evaluates_tokens(config.job.kind)) return std::nullopt;
  std::optional<std::vector<NamedText>> texts;
  findings.examine([&] { texts = texts_of(config); });
  if (!texts) return std::nullopt;  // a pipe or compressed file is no input of tokens
  check_texts(job, *texts, config);
  const std::optional<DataIdentity> data = check_trained_tokens(job, config, vocab_size);
  if (!trains || config.evaluate.every_steps == 0) return data;
  for (const fs::path& tokens : config.evaluate.tokens)
    if (!corpus::is_text(tokens)) findings.examine([&] { check_held_out(job, config, tokens, vocab_size); });
  return data;
}

/// Checks generate.prompts, and what answers need of the model, if the job answers prompts.
void check_prompts(const Examination& job) {
  const JobConfig& config = job.plan->config();
  if (!answers_prompts(config)) return;
  if (!config.generate.stop.empty()) static_cast<void>(tokenizer_for_stops(config.model.path));
  if (!config.generate.ignore_eos) static_cast<void>(read_end_tokens(config.model.path));
  const JobPrompts read = read_job_prompts(config, job.plan->blueprint->model.config);
  std::int64_t tokens = 0;
  for (const Prompt& prompt : read.prompts) tokens += std::ssize(prompt.tokens);
  job.line("prompts   {} of {} in {}", read.prompts.size(), counted(tokens, "token"),
           config.generate.prompts.string());
  if (const std::string unused = unused_keys_text(read.prompts); !unused.empty())
    job.line("prompts   {}", unused);
}

void check_written(const Examination& job) {
  const Blueprint& blueprint = *job.plan->blueprint;
  if (!exports_weights(blueprint.config)) return;
  const ExportSize size = check_export(blueprint, job.plan->shards);
  job.line("export    {}, {} in {}, to {}", counted(size.tensors, "tensor"), format_bytes(size.bytes),
           counted(size.files, "file"), blueprint.config.export_.path.string());
}

void check_saves(const Examination& job, const std::optional<DataIdentity>& data) {
  const JobPlan& plan = *job.plan;
  const JobConfig& config = plan.config();
  if (!is_training(config.job.kind)) return;
  const SavePlan& saves = plan.saves;
  job.line("saves     {}", save_text(config, saves.step_bytes));
  const bool is_apart = saves.step_bytes_of_host > 0 && config.checkpoint.storage == SaveStorage::kNode;
  if (is_apart)
    job.line("          on each host's own disk, {}", hosts_text({&saves.step_bytes_of_host, 1}, config));
  if (config.checkpoint.saves())
    require_room_for_steps(config, is_apart ? saves.step_bytes_of_host : saves.step_bytes);
  if (!plan.resumed) return;
  const FoundStep& found = plan.resumed->found;
  if (data) require_same_data(found, config.data, *data);
  job.line("resume    {}", resume_text(config, found));
}

/// Tells of the rank that needs most, and of what it may take.
void tell_memory(const Examination& job) {
  const JobPlan& plan = *job.plan;
  const Machine& machine = plan.machine;
  const std::vector<RankMemory> ranks = plan.limited_parts();
  const auto most = std::ranges::max_element(ranks, {}, &RankMemory::certain);
  const bool is_known =
      machine.told_bytes || !plan.computes_on_gpus() || machine.device.gpus.front().memory_bytes > 0;
  job.line("memory    rank {} needs most: {}; with activations, an estimate, {}", most - ranks.begin(),
           format_bytes(most->certain()), format_bytes(most->peak()));
  job.line("          rank {}: {}", most - ranks.begin(),
           is_known ? verdict_text(*most, machine.smallest_limit())
                    : "needs a GPU, and this machine has none; --memory says what one has");
  if (machine.told_bytes || plan.computes_on_gpus()) return;
  const std::int64_t all = std::transform_reduce(ranks.begin(), ranks.end(), std::int64_t{0}, std::plus<>(),
                                                 [](const RankMemory& memory) { return memory.certain(); });
  const std::int64_t here = memory_of_this_machine(memory_pool(plan.config())).bytes;
  if (all > here)
    job.line("note      together the {} ranks need {}: more than this machine has for all of them",
             ranks.size(), format_bytes(all));
}

void check_weights(const Examination& job) {
  const std::optional<LoadOutline>& load = job.plan->load;
  if (!load) return job.line("weights   drawn, model.init = \"random\"");
  load->fault.throw_if_failed();
  job.line("weights   {} in {}, {} in {}", counted(load->tensors, "tensor"), counted(load->files, "file"),
           format_bytes(load->read_bytes), counted(load->reads, "read"));
  for (const LoadOutline::Reader& reader : load->readers)
    job.line("          rank {} reads {} and sends {}", reader.rank, format_bytes(reader.read_bytes),
             format_bytes(reader.sent_bytes));
  for (const std::string& text : load->skipped) job.line("          {}", text);
}

void tell_ranks(const Examination& job) {
  const JobPlan& plan = *job.plan;
  const std::vector<std::int64_t> bytes = plan.blueprint->shard_bytes(plan.shards);
  for (std::size_t rank = 0; rank < bytes.size(); ++rank)
    job.line("rank {:<4} holds {} of weights", rank, format_bytes(bytes[rank]));
  if (const std::string note = stored_note(*plan.blueprint); !note.empty()) job.line("note      {}", note);
  for (const std::string& note : job_notes(plan.config(), plan.blueprint->model, plan.machine.ranks()))
    job.line("note      {}", note);
  for (const std::string& note : adapter_notes(plan.config(), plan.blueprint->model))
    job.line("note      {}", note);
}

void make_plan(Examination& job, const JobConfig& config, const MachineArguments& machine) {
  job.plan.emplace(plan_of_command(config, machine));
  if (job.plan->is_fitted && job.plan->lack.empty()) job.line("{}", choice_text(*job.plan));
  if (job.plan->has_chosen_replicas) job.line("{}", replicas_text(*job.plan));
  if (job.plan->chosen_vocabulary) job.line("{}", vocabulary_text(*job.plan));
  tell_model(job);
}

/// Checks everything in the order in which a run would meet it.
void examine_job(Examination& job, const JobConfig& config, const MachineArguments& machine) {
  const auto examine = [&](const std::function<void()>& part) { job.findings.examine(part); };
  examine([&] { require_device_in_build(config.device); });
  examine([&] { static_cast<void>(find_compute_program(config.job.kind)); });
  examine([&] { make_plan(job, config, machine); });
  examine([&] { RunDirectory::check(config); });
  const std::optional<DataIdentity> data = check_token_inputs(job, config);
  if (!job.plan) return;
  examine([&] { check_prompts(job); });
  examine([&] { check_written(job); });
  examine([&] { check_saves(job, data); });
  for (const PlanCheck& one : plan_checks()) examine([&] { one.check(*job.plan); });
  tell_memory(job);
  examine([&] { check_weights(job); });
  tell_ranks(job);
}

nlohmann::json as_json(const Examination& job) {
  nlohmann::json out = nlohmann::json::object();
  if (job.plan)
    out = to_json(*job.plan, {told_growth_limit(job.plan->config(), job.plan->machine.told_bytes), {}});
  out["findings"] = nlohmann::json::array();
  for (const Outcome& found : job.findings.all()) {
    const FailurePlace place = place_of(found.text);
    out["findings"].push_back({{"id", found.id.text()},
                               {"code", static_cast<int>(found.code)},
                               {"text", found.text},
                               {"file", place.file},
                               {"key", place.key}});
  }
  return out;
}

/// Checks a job in this process alone, without GPU or launch, for all that a run would fail for:
/// configuration, model, place of the results, tokens, memory, the weights' headers and the plans. The exit
/// status is that of the first finding in the order in which a run would meet them.
int check_command(const CheckArguments& arguments) {
  Examination job{.is_quiet = arguments.json};
  std::optional<JobConfig> config;
  const auto load = [&] { config = load_job_config(arguments.job.file, arguments.job.overrides); };
  if (arguments.json)
    job.findings.examine(load);
  else
    load();
  if (config) examine_job(job, *config, arguments.machine);
  const std::string file = arguments.job.file.string();
  if (arguments.json)
    print_json(as_json(job));
  else if (job.findings.empty())
    console::line("{} is fine for {}", file, counted(arguments.machine.ranks, "rank"));
  else
    console::report("sluice: " + job.findings.text(file));
  return static_cast<int>(job.findings.code());
}

}  // namespace

void add_check(CommandLine& line) {
  const auto [command, arguments] = add_command<CheckArguments>(
      line, "check", "Find all that a run would fail for, without a launch", check_command);
  add_job_arguments(command, arguments.job);
  add_machine(command, arguments.machine)->capture_default_str();
  command.add_flag("--json", arguments.json, "Print JSON");
}

}  // namespace sluice
