// Commands that are given a model.

#include "commands.hpp"
#include "options.hpp"

#include <limits>

namespace sluice {
namespace {

void add_inspect(CLI::App& app, Action& action) {
  const auto [command, arguments] = add_command<InspectArguments>(
      app, action, "inspect", "Parameters, tensors, layers and bytes of a model", inspect_command);
  command.add_option("model_dir", arguments.model, "Hugging Face directory, or a config.json")->required();
  command.add_flag("--json", arguments.json, "Print JSON");
}

void add_synthesize(CLI::App& app, Action& action) {
  const auto [command, arguments] = add_command<SynthesizeArguments>(
      app, action, "synthesize", "Write a random checkpoint of a config.json's shape", synthesize_command);
  command.add_option("config_dir", arguments.config_directory, "Directory with config.json")->required();
  command.add_option("out_dir", arguments.output, "Directory to create")->required();
  command.add_option("--seed", arguments.seed, "Seed of the weights")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max(), ">= 0"))
      ->capture_default_str();
  command.add_flag("--sparse", arguments.sparse,
                   "Leave holes instead of numbers: every weight reads as zero");
}

void add_verify(CLI::App& app, Action& action) {
  const auto [command, arguments] = add_command<VerifyArguments>(
      app, action, "verify", "Check a model directory's tensors, or that two hold the same ones",
      verify_command);
  command.add_option("model_dir", arguments.directory, "Hugging Face directory")->required();
  command.add_option("other_dir", arguments.other, "Directory to compare it with");
  command.add_flag("--json", arguments.json, "Print JSON, with the digest of every tensor");
}

void add_tokenize(CLI::App& app, Action& action) {
  using namespace corpus;
  const auto [command, arguments] = add_command<TokenizeOptions>(
      app, action, "tokenize", "Turn text, JSONL and chats into a file of tokens", tokenize_command);
  arguments.threads = 0;
  command.add_option("model_dir", arguments.model, "Directory with tokenizer.json and config.json")
      ->required();
  command.add_option("inputs", arguments.sources, "Files or pipes (/dev/stdin): text, JSONL, JSON")
      ->required();
  command.add_option("-o,--output", arguments.output, "HDF5 file to create")->required();
  command
      .add_option(
          "--holdout", arguments.holdout_share,
          "Share for OUT.holdout.h5, such as 0.02: of documents, and of texts that are one, their ends")
      ->check(CLI::Range(0.0, 0.9));
  add_choice(command, "--format", arguments.format,
             {{"auto", Format::kAuto},
              {"text", Format::kText},
              {"jsonl", Format::kJsonLines},
              {"json", Format::kJson}},
             "auto (by content), text, jsonl, json (an array of objects)");
  add_choice(command, "--documents", arguments.documents,
             {{"eot", Documents::kEndOfText}, {"file", Documents::kFile}, {"blank", Documents::kBlank}},
             "Where a text's documents end: eot (end token), file, blank (line)");
  command.add_option("--field", arguments.line.field,
                     "Key of the text in JSONL; left out: a chat, or 'text'");
  command.add_option("--template", arguments.chat_template,
                     "Chat template for chats, a file; left out: the model's");
  command.add_option("--eos", arguments.end_token, "Token that ends a document; left out: the model's");
  command.add_flag("!--no-eos", arguments.adds_end_token, "Add no such token");
  add_choice(command, "--loss", arguments.loss,
             {{"assistant", Loss::kAssistant}, {"all", Loss::kAll}, {"last", Loss::kLast}},
             "What counts in a chat: assistant (its messages), all, last (message)");
  add_choice(command, "--tools", arguments.line.keeps_tools, {{"keep", true}, {"drop", false}},
             "Tools and calls of chats: keep, drop");
  add_choice(command, "--reasoning", arguments.line.keeps_reasoning, {{"keep", true}, {"drop", false}},
             "Reasoning in chats: keep, drop");
  add_choice(command, "--bad-lines", arguments.bad_lines,
             {{"error", BadLines::kError}, {"skip", BadLines::kSkip}},
             "Lines that cannot be read: error, skip");
  command.add_option("--threads", arguments.threads, "Threads; left out: all cores")
      ->check(CLI::Range(1, 1024));
}

/// One that answers prompts.
Command<GenerateArguments> add_answering(CLI::App& app, Action& action, const char* name, const char* help,
                                         const Words& words) {
  const auto answering = add_command<GenerateArguments>(app, action, name, help, generate_command);
  answering.arguments.words = words;
  answering.app.add_option("source", answering.arguments.source, "Model directory, run, or saved step")
      ->required();
  return answering;
}

void add_generate(CLI::App& app, Action& action, const Words& words) {
  const auto [command, arguments] = add_answering(
      app, action, "generate", "Answer prompts, under mpirun or srun, or alone as one rank", words);
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

void add_chat(CLI::App& app, Action& action, const Words& words) {
  const auto [command, arguments] =
      add_answering(app, action, "chat", "Talk with a model in the terminal, with or without mpirun", words);
  arguments.is_conversation = true;
  command.add_option("--system", arguments.system, "What the model is told before the conversation");
  add_answer_settings(command, arguments);
}

}  // namespace

void add_model_commands(CLI::App& app, Action& action, const Words& words) {
  add_inspect(app, action);
  add_synthesize(app, action);
  add_verify(app, action);
  add_tokenize(app, action);
  add_generate(app, action, words);
  add_chat(app, action, words);
}

}  // namespace sluice
