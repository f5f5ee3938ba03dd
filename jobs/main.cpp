// The command line.

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "comm/outcome.hpp"
#include "config/job_config.hpp"
#include "job/commands/commands.hpp"
#include "job/console.hpp"
#include "job/versions.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <csignal>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace {

using sluice::JobArguments;

/// What the chosen subcommand will do.
using Action = std::function<int()>;

void add_job_arguments(CLI::App& command, JobArguments& arguments, const char* file = "Job file (TOML)") {
  command.add_option("job", arguments.file, file)->required();
  command.add_option("--set", arguments.overrides, "table.key=value; may be repeated")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
}

void add_run(CLI::App& app, JobArguments& arguments, Action& action) {
  CLI::App* command = app.add_subcommand("run", "Run a job, under mpirun or srun, or alone as one rank");
  add_job_arguments(*command, arguments);
  command->footer("\nKeys of a job file:\n\n" + sluice::describe_schema(sluice::console::text_columns()));
  command->callback([&] { action = [&] { return sluice::run_command(arguments); }; });
}

void add_launch(CLI::App& app, sluice::LaunchArguments& arguments, Action& action) {
  CLI::App* command =
      app.add_subcommand("launch", "Run a job under mpirun; Ctrl-C once lets it save and end with 75");
  add_job_arguments(*command, arguments.job);
  command->add_option("-n,--ranks", arguments.ranks, "Number of ranks")
      ->required()
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("options", arguments.launcher_options, "Options of mpirun, behind --");
  command->footer("\nIn place of a job file: generate and its arguments.");
  command->callback([&] { action = [&] { return sluice::launch_command(arguments); }; });
}

/// A size such as 128.5GB.
void add_size(CLI::App& command, const std::string& option, std::optional<std::int64_t>& bytes,
              const std::string& help) {
  command.add_option_function<std::string>(
      option,
      [&bytes, option](const std::string& text) {
        bytes = sluice::parse_bytes(text);
        if (!bytes)
          throw CLI::ValidationError(option,
                                     "'" + text + "' is no size with its unit, such as 128.5GB or 120GiB");
      },
      help);
}

void add_check(CLI::App& app, sluice::CheckArguments& arguments, Action& action) {
  CLI::App* command = app.add_subcommand("check", "Find all that a run would fail for, without a launch");
  add_job_arguments(*command, arguments.job);
  command->add_option("--ranks", arguments.ranks, "Number of ranks to plan for")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  add_size(*command, "--memory", arguments.memory_bytes,
           "Memory of one rank, such as 128.5GB; left out: what this machine has");
  command->callback([&] { action = [&] { return sluice::check_command(arguments); }; });
}

void add_plan(CLI::App& app, sluice::PlanArguments& arguments, Action& action) {
  CLI::App* command = app.add_subcommand("plan", "Memory of each rank, by purpose");
  add_job_arguments(*command, arguments.job,
                    "Job file, or a model directory or config.json to train with defaults");
  command->add_option("--ranks", arguments.ranks, "Number of ranks")
      ->required()
      ->check(CLI::Range(1, 1 << 20));
  add_size(*command, "--memory", arguments.memory_bytes, "Memory of one rank, such as 128.5GB");
  add_size(*command, "--disk-rate", arguments.disk_rate,
           "Bytes a second of a rank's disk, for memory.offload, such as 2GB");
  command->add_flag("--json", arguments.json, "Print JSON");
  command->callback([&] { action = [&] { return sluice::plan_command(arguments); }; });
}

void add_synthesize(CLI::App& app, sluice::SynthesizeArguments& arguments, Action& action) {
  CLI::App* command = app.add_subcommand("synthesize", "Write a random checkpoint of a config.json's shape");
  command->add_option("config_dir", arguments.config_directory, "Directory with config.json")->required();
  command->add_option("out_dir", arguments.output, "Directory to create")->required();
  command->add_option("--seed", arguments.seed, "Seed of the weights")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max(), ">= 0"))
      ->capture_default_str();
  command->add_flag("--sparse", arguments.sparse,
                    "Leave holes instead of numbers: every weight reads as zero");
  command->callback([&] { action = [&] { return sluice::synthesize_command(arguments); }; });
}

/// An option with one word of a few.
template <class Value>
void add_choice(CLI::App& command, const std::string& option, Value& value,
                const std::map<std::string, Value>& words, const std::string& help) {
  std::vector<std::string> names;
  for (const auto& [name, meaning] : words) names.push_back(name);
  command
      .add_option_function<std::string>(
          option, [&value, words](const std::string& word) { value = words.at(word); }, help)
      ->check(CLI::IsMember(names));
}

void add_tokenize(CLI::App& app, sluice::corpus::TokenizeOptions& options, Action& action) {
  using namespace sluice::corpus;
  CLI::App* command = app.add_subcommand("tokenize", "Turn text, JSONL and chats into a file of tokens");
  command->add_option("model_dir", options.model, "Directory with tokenizer.json and config.json")
      ->required();
  command->add_option("inputs", options.sources, "Files: text, or JSONL (.jsonl, .ndjson)")->required();
  command->add_option("-o,--output", options.output, "HDF5 file to create")->required();
  command
      ->add_option("--holdout", options.holdout_share, "Share of documents for OUT.holdout.h5, such as 0.02")
      ->check(CLI::Range(0.0, 0.9));
  add_choice(*command, "--format", options.format,
             {{"auto", Format::kByName}, {"text", Format::kText}, {"jsonl", Format::kJsonLines}},
             "auto (by name), text, jsonl");
  add_choice(*command, "--documents", options.documents,
             {{"eot", Documents::kEndOfText}, {"file", Documents::kFile}, {"blank", Documents::kBlank}},
             "Where a text's documents end: eot (end token), file, blank (line)");
  command->add_option("--field", options.line.field, "Key of the text in JSONL; left out: a chat, or 'text'");
  command->add_option("--eos", options.end_token, "Token that ends a document; left out: the model's");
  command->add_flag("!--no-eos", options.adds_end_token, "Add no such token");
  add_choice(*command, "--loss", options.loss,
             {{"assistant", Loss::kAssistant}, {"all", Loss::kAll}, {"last", Loss::kLast}},
             "What counts in a chat: assistant (its messages), all, last (message)");
  add_choice(*command, "--tools", options.line.keeps_tools, {{"keep", true}, {"drop", false}},
             "Tools and calls of chats: keep, drop");
  add_choice(*command, "--reasoning", options.line.keeps_reasoning, {{"keep", true}, {"drop", false}},
             "Reasoning in chats: keep, drop");
  add_choice(*command, "--bad-lines", options.bad_lines,
             {{"error", BadLines::kError}, {"skip", BadLines::kSkip}},
             "Lines that cannot be read: error, skip");
  command->add_option("--threads", options.threads, "Threads; left out: all cores")
      ->check(CLI::Range(1, 1024));
  command->callback([&] { action = [&] { return sluice::tokenize_command(options); }; });
}

void add_inspect(CLI::App& app, sluice::InspectArguments& arguments, Action& action) {
  CLI::App* command = app.add_subcommand("inspect", "Parameters, tensors, layers and bytes of a model");
  command->add_option("model_dir", arguments.model, "Hugging Face directory, or a config.json")->required();
  command->add_flag("--json", arguments.json, "Print JSON");
  command->callback([&] { action = [&] { return sluice::inspect_command(arguments); }; });
}

void add_verify(CLI::App& app, sluice::VerifyArguments& arguments, Action& action) {
  CLI::App* command =
      app.add_subcommand("verify", "Check a model directory's tensors, or that two hold the same ones");
  command->add_option("model_dir", arguments.directory, "Hugging Face directory")->required();
  command->add_option("other_dir", arguments.other, "Directory to compare it with");
  command->add_flag("--json", arguments.json, "Print JSON, with the digest of every tensor");
  command->callback([&] { action = [&] { return sluice::verify_command(arguments); }; });
}

/// "checkpoint ls RUN" and its like.
void add_checkpoint(CLI::App& app, sluice::CheckpointArguments& arguments, Action& action) {
  CLI::App* command = app.add_subcommand("checkpoint", "Saved steps of a run: list, verify, export");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* help, int (*run)(const sluice::CheckpointArguments&)) {
    CLI::App* part = command->add_subcommand(name, help);
    part->add_option("run", arguments.run, "Run directory, its checkpoint.path, or one saved step")
        ->required();
    part->callback([&arguments, &action, run] { action = [&arguments, run] { return run(arguments); }; });
    return part;
  };
  add("ls", "List the saved steps, and whether they are whole", sluice::checkpoint_list_command);
  add("verify", "Read every byte of them", sluice::checkpoint_verify_command)
      ->add_option("--step", arguments.step, "Of this step alone");
  CLI::App* part =
      add("export", "Write a Hugging Face directory from one of them", sluice::checkpoint_export_command);
  part->add_option("out_dir", arguments.output, "Directory to create")->required();
  part->add_option("--step", arguments.step, "Which; left out: the newest");
}

void add_report(CLI::App& app, sluice::ReportArguments& arguments, Action& action) {
  CLI::App* command =
      app.add_subcommand("report", "Write one HTML page that shows runs: loss, speed, memory, experts");
  command->add_option("run", arguments.runs, "Run directories, which may still be running")->required();
  command->add_option("-o,--output", arguments.output,
                      "File to write; left out: report.html in the first run");
  command->callback([&] { action = [&] { return sluice::report_command(arguments); }; });
}

void add_top(CLI::App& app, sluice::TopArguments& arguments, Action& action) {
  CLI::App* command = app.add_subcommand("top", "Watch a run: loss, tokens/s, memory, experts");
  command->add_option("run", arguments.run, "Run directory")->required();
  command->add_option("--every", arguments.seconds, "Seconds between two looks")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command->callback([&] { action = [&] { return sluice::top_command(arguments); }; });
}

/// An option whose value becomes that of a key of [generate].
void add_setting(CLI::App& command, std::vector<std::string>& settings, const std::string& option,
                 const std::string& key, const std::string& help) {
  command.add_option_function<std::string>(
      option, [&settings, key](const std::string& value) { settings.push_back(key + "=" + value); }, help);
}

/// An option with a text, each time that it is given.
CLI::Option* add_texts(CLI::App& command, const char* option, std::vector<std::string>& values,
                       const char* help) {
  return command.add_option(option, values, help)->expected(1)->allow_extra_args(false)->take_all();
}

/// How tokens are chosen, and with what numbers.
void add_answer_settings(CLI::App& command, sluice::GenerateArguments& arguments) {
  add_texts(command, "--stop", arguments.stops, "Text that ends an answer; may be repeated");
  const auto setting = [&](const char* option, const char* key, const char* help) {
    add_setting(command, arguments.settings, option, key, help);
  };
  setting("--max-tokens", "generate.max_tokens", "Tokens of an answer, at most");
  setting("--temperature", "generate.temperature",
          "0, unless it is given: the most probable token each time");
  setting("--top-k", "generate.top_k", "Draw from the k most probable tokens");
  setting("--top-p", "generate.top_p", "Draw from those that together are as probable as this");
  setting("--min-p", "generate.min_p", "Draw from those this times as probable as the first");
  setting("--repetition-penalty", "generate.repetition_penalty", "Of tokens that are there already");
  setting("--seed", "generate.seed", "Of the draws");
  setting("--dtype", "model.dtype", "bfloat16 or float32");
  setting("--adapter", "model.adapter", "Directory of an adapter of the model, as PEFT saves it");
  command.add_flag_callback(
      "--ignore-eos", [&] { arguments.settings.emplace_back("generate.ignore_eos=true"); },
      "Go on behind the model's end-of-text token");
  add_texts(command, "--set", arguments.overrides, "table.key=value of a job file; may be repeated");
}

void add_generate(CLI::App& app, sluice::GenerateArguments& arguments, Action& action) {
  CLI::App* command =
      app.add_subcommand("generate", "Answer prompts, under mpirun or srun, or alone as one rank");
  command->add_option("source", arguments.source, "Model directory, run, or saved step")->required();
  auto* prompt = add_texts(*command, "--prompt", arguments.texts, "A text; may be repeated");
  auto* ids =
      add_texts(*command, "--prompt-tokens", arguments.prompt_tokens, "Ids such as 5,17,42; may be repeated");
  command->add_option("--prompts", arguments.prompts, "File of prompts: a text a line, or JSONL")
      ->excludes(prompt)
      ->excludes(ids);
  command->add_flag("--chat", arguments.chat,
                    "Prompts are what a user says: lays them out by the model's chat template");
  auto* tokens = command->add_flag("--print-tokens", arguments.print_tokens, "Print the new ids alone");
  command->add_flag("--json", arguments.json, "Print an object for each answer")->excludes(tokens);
  add_answer_settings(*command, arguments);
  command->callback([&] { action = [&] { return sluice::generate_command(arguments); }; });
}

void add_submit(CLI::App& app, sluice::SubmitArguments& arguments, Action& action) {
  CLI::App* command =
      app.add_subcommand("submit", "Write a job script into the run directory and call sbatch");
  add_job_arguments(*command, arguments.job);
  command->add_flag("--mpirun", arguments.with_mpirun, "Start ranks with mpirun instead of srun");
  command->add_flag("--dry-run", arguments.dry_run, "Print the script and the command, and do nothing");
  command->add_flag("--test-only", arguments.test_only, "Let Slurm say when it would start the job");
  command->add_option("options", arguments.sbatch_options, "Options of sbatch, behind --");
  command->callback([&] { action = [&] { return sluice::submit_command(arguments); }; });
}

void add_requeue(CLI::App& app, sluice::RequeueArguments& arguments, Action& action) {
  CLI::App* command =
      app.add_subcommand("requeue", "For job scripts: requeue a Slurm job that ended with 75");
  add_job_arguments(*command, arguments.job);
  command->add_option("--limit", arguments.limit, "Restarts in a row that may save no later step")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  command->callback([&] { action = [&] { return sluice::requeue_command(arguments); }; });
}

void add_status(CLI::App& app, sluice::StatusArguments& arguments, Action& action) {
  CLI::App* command = app.add_subcommand("status", "Step, loss, tokens/s, time left and last save of runs");
  command->add_option("runs", arguments.runs, "Run directories")->required();
  command->add_flag("--json", arguments.json, "Print JSON");
  command->callback([&] { action = [&] { return sluice::status_command(arguments); }; });
}

/// "metrics merge RUN" and its like.
void add_metrics(CLI::App& app, sluice::MergeArguments& arguments, sluice::MetricsExportArguments& exporting,
                 Action& action) {
  CLI::App* command = app.add_subcommand("metrics", "Metrics files of a run");
  command->require_subcommand(1);
  CLI::App* part = command->add_subcommand("merge", "Join the metrics files of a run that was resumed");
  part->add_option("run", arguments.run, "Run directory, or the first of its metrics files")->required();
  part->add_option("-o,--output", arguments.output, "File to write, which may not be there yet")->required();
  part->callback([&] { action = [&] { return sluice::metrics_merge_command(arguments); }; });
  part = command->add_subcommand("export", "Write them in another format");
  part->add_option("run", exporting.run, "Run directory")->required();
  CLI::Option_group* format = part->add_option_group("format");
  format->add_flag("--csv", exporting.csv, "A line a step, a column for each number");
  format->add_flag("--jsonl", exporting.jsonl, "An object a step");
  format->add_flag("--tensorboard", exporting.tensorboard, "An event file, in a directory");
  format->require_option(1);
  part->add_option(
      "-o,--output", exporting.output,
      "File or directory to write; left out: metrics.csv, metrics.jsonl or tensorboard in the run");
  part->callback([&] { action = [&] { return sluice::metrics_export_command(exporting); }; });
}

void add_chat(CLI::App& app, sluice::GenerateArguments& arguments, Action& action) {
  CLI::App* command = app.add_subcommand("chat", "Talk with a model in the terminal, with or without mpirun");
  command->add_option("source", arguments.source, "Model directory, run, or saved step")->required();
  command->add_option("--system", arguments.system, "What the model is told before the conversation");
  add_answer_settings(*command, arguments);
  command->callback([&] {
    arguments.is_conversation = true;
    action = [&] { return sluice::generate_command(arguments); };
  });
}

/// What to tell of a first word that is no command, or "".
std::string unknown_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  if (word.starts_with('-') || std::ranges::find(names, word) != names.end()) return "";
  const std::string near = sluice::nearest(word, names);
  return fmt::format("sluice: there is no command {}{}; sluice --help lists them", sluice::printable(word),
                     near.empty() ? "" : ". Did you mean " + near + "?");
}

/// Of "launch ... generate SOURCE ... -- ..." the words of the command that ranks are to run, without those behind --. Only the
/// name is left of them, in place of a job file.
std::vector<std::string> take_rank_command(std::vector<std::string>& words) {
  const auto end = std::find(words.begin(), words.end(), "--");
  const auto name = std::find(words.begin(), end, "generate");
  if (words.empty() || words.front() != "launch" || name == end) return {};
  std::vector<std::string> command(name, end);
  words.erase(name + 1, end);
  return command;
}

int parse_and_act(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  CLI::App app("Sluice loads and trains large mixture-of-experts models on machines where memory is short.",
               "sluice");
  app.set_version_flag("--version", sluice::versions_text);
  app.require_subcommand(1);
  Action action;
  JobArguments job;
  sluice::LaunchArguments launch;
  sluice::CheckArguments check;
  sluice::PlanArguments plan;
  sluice::InspectArguments inspect;
  sluice::SynthesizeArguments synthesize;
  sluice::VerifyArguments verify;
  sluice::corpus::TokenizeOptions tokenize;
  tokenize.threads = 0;
  sluice::CheckpointArguments checkpoint;
  sluice::GenerateArguments generate;
  sluice::SubmitArguments submit;
  sluice::RequeueArguments requeue;
  sluice::StatusArguments status_of;
  sluice::MergeArguments merge;
  sluice::ReportArguments report;
  sluice::MetricsExportArguments metrics_export;
  sluice::TopArguments top;
  launch.command = take_rank_command(words);
  generate.words = launch.command.empty() ? words : launch.command;
  add_run(app, job, action);
  add_launch(app, launch, action);
  add_check(app, check, action);
  add_plan(app, plan, action);
  add_inspect(app, inspect, action);
  add_synthesize(app, synthesize, action);
  add_verify(app, verify, action);
  add_tokenize(app, tokenize, action);
  add_checkpoint(app, checkpoint, action);
  add_generate(app, generate, action);
  add_submit(app, submit, action);
  add_requeue(app, requeue, action);
  add_status(app, status_of, action);
  add_metrics(app, merge, metrics_export, action);
  add_chat(app, generate, action);
  add_report(app, report, action);
  add_top(app, top, action);
  const std::string first = words.empty() ? "" : words.front();
  if (first == "help" && words.size() == 1) {
    std::cout << app.help() << std::flush;
    sluice::console::require_written();
    return 0;
  }
  if (const std::string unknown = first.empty() ? "" : unknown_command(app, first); !unknown.empty()) {
    sluice::console::report(unknown);
    return static_cast<int>(sluice::ExitCode::kUsage);
  }
  try {
    std::vector<std::string> reversed(generate.words.rbegin(), generate.words.rend());
    app.parse(reversed);  // what ranks will be told is refused here, once
    if (!launch.command.empty()) {
      app.clear();
      reversed.assign(words.rbegin(), words.rend());
      app.parse(reversed);
    }
  } catch (const CLI::ParseError& e) {
    const int status = app.exit(e) == 0 ? 0 : static_cast<int>(sluice::ExitCode::kUsage);
    std::cout.flush();
    sluice::console::require_written();
    return status;
  }
  const int status = action();
  // A job's results are files; of all else what is printed is the result.
  if (!app.got_subcommand("run") && !app.got_subcommand("launch")) sluice::console::require_written();
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  // A file that reaches the user's limit (ulimit -f) is a refused write, with a name, and not a sudden death.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return parse_and_act(argc, argv);
  } catch (...) {
    const sluice::Outcome failure = sluice::current_failure();
    sluice::console::report("sluice: " + failure.text);
    return static_cast<int>(failure.code);
  }
}
