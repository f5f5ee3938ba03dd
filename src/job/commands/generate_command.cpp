#include "base/at_place.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/step_source.hpp"
#include "config/domain.hpp"
#include "config/job_copy.hpp"
#include "config/option_values.hpp"
#include "config/schema.hpp"
#include "corpus/source/source_file.hpp"
#include "io/path.hpp"
#include "job/answers/model_text.hpp"
#include "job/commands/commands.hpp"
#include "job/commands/run_files.hpp"
#include "job/exec_compute_program.hpp"
#include "job/prepare/model_source.hpp"
#include "job/run/run_job.hpp"
#include "model/model_directory.hpp"
#include "process/console.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

struct GenerateArguments {
  /// Model directory, run, directory of checkpoints, or one checkpoint.
  std::filesystem::path source;
  std::vector<std::string> texts;          ///< prompts given as text
  std::vector<std::string> prompt_tokens;  ///< prompts given as token ids, each "5,17,42"
  std::filesystem::path prompts;           ///< file of prompts, as in read_prompts()
  std::vector<std::string> stops;          ///< texts that end an answer
  bool chat = false;                       ///< whether prompts are a user's messages in a chat
  /// Whether prompts are read from standard input and answered one by one.
  bool is_conversation = false;
  std::string system;           ///< system prompt of a conversation
  std::filesystem::path trace;  ///< directory for a trace of the passes; "": none
  bool print_tokens = false;
  bool json = false;
  std::vector<OptionValue> settings;   ///< keys that options set
  std::vector<std::string> overrides;  ///< values of --set
  std::vector<std::string> words;      ///< words of the command line, without the program
};

namespace fs = std::filesystem;

/// A text as TOML spells it.
std::string toml_string(const std::string& text) { return toml_text(Value(text)); }

/// Error(kBadData) unless `source` is a model's directory or has checkpoints.
void require_model(const fs::path& source) {
  if (!path_exists(source)) {
    require_model_directory(source);
    fail({ExitCode::kBadData, "model.not_a_model"}, "{}: there is no such model, run or checkpoint",
         source.string());
  }
  if (path_exists(source / "config.json") || find_steps(source)) return;
  if (!path_exists(source / kJobCopyFile)) {
    require_model_directory(source);
    fail({ExitCode::kBadData, "model.not_a_model"},
         "{}: found neither a config.json nor checkpoints, expected the directory of a model, a run or a "
         "step",
         source.string());
  }
  const std::string kind = find_run_files(source).kind();
  if (kind != "train")
    fail({ExitCode::kBadData, "model.not_a_model"},
         "{}: the run's job.kind is \"{}\", which saves no steps; expected the run of a training, or a "
         "model's directory",
         source.string(), printable(kind));
  fail({ExitCode::kBadData, "model.not_a_model"},
       "{}: the run has saved no step to generate from; checkpoint.every_steps and checkpoint.every_minutes "
       "say when one is saved",
       source.string());
}

/// Whether a launcher has started this process together with others, each of which reads the prompts.
bool is_one_of_several() {
  constexpr std::array<const char*, 2> kSizes{"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"};
  return std::ranges::any_of(kSizes, [](const char* name) {
    const char* const size = std::getenv(name);
    return size != nullptr && std::string_view(size) != "1";
  });
}

std::vector<Prompt> prompts_of(const GenerateArguments& arguments) {
  if (!arguments.prompts.empty() && is_one_of_several())
    corpus::require_no_stream(arguments.prompts, "--prompts: ", "several ranks read it");
  if (!arguments.prompts.empty())
    return at_place("--prompts", [&] { return read_prompts(arguments.prompts); });
  std::vector<Prompt> prompts;
  for (const std::string& text : arguments.texts) prompts.push_back({fmt::to_string(prompts.size()), text});
  for (const std::string& ids : arguments.prompt_tokens)
    prompts.push_back({fmt::to_string(prompts.size()), "", parse_token_ids(ids)});
  if (prompts.empty())
    fail({ExitCode::kUsage, "command.usage"},
         "nothing to answer: give --prompt, --prompt-tokens or --prompts");
  return prompts;
}

AnswerForm form_of(const GenerateArguments& arguments) {
  if (arguments.json) return AnswerForm::kJson;
  return arguments.print_tokens ? AnswerForm::kTokens : AnswerForm::kText;
}

/// Steps of a job from the first one on, however many it makes.
constexpr StepRange kAllSteps{1, std::numeric_limits<std::int64_t>::max() - 1};

/// The job that answers the prompts, as the command line asks for it; its model may still be a run.
JobConfig job_of(const GenerateArguments& arguments) {
  std::vector<std::string> overrides{"job.kind=generate", "job.output=none", "generate.prompts=none",
                                     "model.path=" + toml_string(arguments.source.string())};
  overrides.insert(overrides.end(), arguments.overrides.begin(), arguments.overrides.end());
  JobConfig config = job_of_options("sluice generate", arguments.settings, overrides);
  config.job.output.clear();  // answers need no run directory
  if (!arguments.stops.empty()) config.generate.stop = arguments.stops;
  if (!arguments.trace.empty() && config.trace.steps.first == 0) config.trace.steps = kAllSteps;
  if (arguments.trace.empty() && config.trace.steps.first > 0)
    fail({ExitCode::kUsage, "command.usage"},
         "trace.steps: found no place for the trace of these passes, expected --trace DIRECTORY");
  if (config.memory.offload_path.empty()) config.memory.offload_path = fs::temp_directory_path();
  return config;
}

/// Reads the prompts and encodes them with the model's tokenizer.
GenerateRequest request_of(const GenerateArguments& arguments, const JobConfig& config,
                           const fs::path& model) {
  GenerateRequest request;
  request.is_conversation = arguments.is_conversation;
  request.system = arguments.system;
  request.trace = arguments.trace;
  request.form = form_of(arguments);
  if (!request.is_conversation) request.prompts = prompts_of(arguments);
  const bool has_texts =
      std::ranges::any_of(request.prompts, &std::vector<std::int64_t>::empty, &Prompt::tokens);
  const bool has_stops = !config.generate.stop.empty();
  if (has_texts || has_stops || request.form != AnswerForm::kTokens)
    request.tokenizer = find_tokenizer(model);
  const auto require_tokenizer = [&](bool is_needed, const char* by) {
    if (is_needed && request.tokenizer == nullptr)
      fail({ExitCode::kBadData, "text.no_tokenizer"}, "{}: found no tokenizer.json, which {} needs",
           model.string(), by);
  };
  require_tokenizer(has_stops, "--stop");
  if (std::ranges::find(arguments.stops, "") != arguments.stops.end())
    fail({ExitCode::kUsage, "command.usage"}, "--stop: found \"\", expected a text");
  require_tokenizer(request.is_conversation, "a conversation");
  if (request.is_conversation) static_cast<void>(ChatEncoder(*request.tokenizer, model));
  encode_prompts(request.prompts, request.tokenizer.get(), model,
                 arguments.chat ? PromptKind::kChat : PromptKind::kPlain);
  return request;
}

/// Limits lengths and batch to what the prompts and their answers, or a conversation, need.
void make_room(GenerateSettings& settings, const GenerateRequest& request) {
  if (request.is_conversation) {
    settings.batch_sequences = 1;
    return;
  }
  const std::vector<Prompt>& prompts = request.prompts;
  std::size_t longest = 0;
  for (const Prompt& prompt : prompts) longest = std::max(longest, prompt.tokens.size());
  settings.max_sequence_length = static_cast<std::int64_t>(longest) + settings.max_tokens;
  settings.batch_sequences = std::min(settings.batch_sequences, std::ssize(prompts));
}

Attempt prepare(const GenerateArguments& arguments) {
  Attempt attempt;
  try {
    require_model(arguments.source);
    JobConfig config = with_saved_sources(job_of(arguments));
    exec_compute_program(config, arguments.words);
    GenerateRequest request = request_of(arguments, config, config.model.path);
    make_room(config.generate, request);
    attempt.config = std::make_unique<JobConfig>(std::move(config));
    attempt.blueprint = std::make_unique<Blueprint>(*attempt.config);
    const ModelConfig& described = attempt.blueprint->model.config;
    require_answerable(request.prompts, described,
                       usable_positions(described, attempt.config->generate.max_sequence_length));
    attempt.request = std::make_unique<GenerateRequest>(std::move(request));
  } catch (...) {
    attempt.outcome = current_failure();
  }
  return attempt;
}

/// Answers prompts with a model. Collective over the processes that mpirun or srun started, as run_command().
int generate_command(const GenerateArguments& arguments) {
  console::keep_stdout_for_results();
  SignalWatch signals;
  return run_attempt(prepare(arguments), signals);
}

/// Help of an option that sets a key of a job file: the key's help, with its values and its default.
std::string help_of_key(const std::string& name) {
  const KeyInfo& key = *find_key(name);
  std::string help = fmt::format("{} ({}; default {})", key.help, key.expected, key.initial);
  help.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(help.front())));
  return help;
}

/// Adds the options for the choice of tokens.
void add_answer_settings(CLI::App& command, GenerateArguments& arguments) {
  add_texts(command, "--stop", arguments.stops, "Text that ends an answer; may be repeated");
  const auto setting = [&](const char* option, const std::string& key) {
    command.add_option_function<std::string>(
        option,
        [&arguments, option, key](const std::string& value) {
          arguments.settings.push_back({option, key, value});
        },
        help_of_key(key));
  };
  setting("--max-tokens", "generate.max_tokens");
  setting("--temperature", "generate.temperature");
  setting("--top-k", "generate.top_k");
  setting("--top-p", "generate.top_p");
  setting("--min-p", "generate.min_p");
  setting("--repetition-penalty", "generate.repetition_penalty");
  setting("--seed", "generate.seed");
  setting("--dtype", "model.dtype");
  setting("--adapter", "model.adapter");
  setting("--step", "model.step");
  command.add_flag_callback(
      "--ignore-eos",
      [&] {
        arguments.settings.push_back({"--ignore-eos", "generate.ignore_eos", "true"});
      },
      "Go on behind the model's end-of-text token");
  command.add_option(
      "--trace", arguments.trace,
      "Directory in which every rank leaves what its passes do, all or those of trace.steps, for "
      "sluice trace");
  add_texts(command, "--set", arguments.overrides, "table.key=value of a job file; may be repeated");
}

/// The job with the paths that the ranks' hosts need.
JobConfig rank_job_of(const GenerateArguments& arguments) {
  JobConfig config = job_of(arguments);
  config.generate.prompts = arguments.prompts;
  return config;
}

/// Adds a command that answers prompts.
Command<GenerateArguments> add_answering(CommandLine& line, const char* name, const char* help) {
  const auto answering = add_command<GenerateArguments>(line, name, help, generate_command);
  answering.arguments.words = line.rank_command.empty() ? line.words : line.rank_command;
  if (!line.rank_command.empty() && line.rank_command.front() == name)
    line.rank_job = [&arguments = answering.arguments] { return rank_job_of(arguments); };
  answering.app.add_option("source", answering.arguments.source, "Model directory, run, or checkpoint")
      ->required();
  return answering;
}

}  // namespace

void add_generate(CommandLine& line) {
  const auto [command, arguments] =
      add_answering(line, "generate", "Answer prompts, under mpirun or srun, or alone as one rank");
  auto* prompt = add_texts(command, "--prompt", arguments.texts, "A text; may be repeated");
  auto* ids =
      add_texts(command, "--prompt-tokens", arguments.prompt_tokens, "Ids such as 5,17,42; may be repeated");
  command.add_option("--prompts", arguments.prompts, "File of prompts: a text a line, or JSONL")
      ->excludes(prompt)
      ->excludes(ids);
  command.add_flag("--chat", arguments.chat,
                   "Prompts are what a user says: lays them out by the model's chat template");
  auto* tokens = command.add_flag("--print-tokens", arguments.print_tokens, "Print the new ids alone");
  command.add_flag("--json", arguments.json, "Print an object for each answer")->excludes(tokens);
  add_answer_settings(command, arguments);
}

void add_chat(CommandLine& line) {
  const auto [command, arguments] =
      add_answering(line, "chat", "Talk with a model in the terminal, with or without mpirun");
  arguments.is_conversation = true;
  command.add_option("--system", arguments.system, "What the model is told before the conversation");
  add_answer_settings(command, arguments);
}

}  // namespace sluice
