#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "corpus/tokenize.hpp"
#include "job/commands/commands.hpp"
#include "process/console.hpp"
#include "process/process_limits.hpp"
#include "process/progress_line.hpp"
#include "process/signal_watch.hpp"

#include <functional>

namespace sluice {
namespace {

void warn_without_target(const std::filesystem::path& file, std::int64_t targets, bool has_mask) {
  if (targets > 0) return;
  log::warning("{} has nothing to learn, and jobs will refuse it: {}", file.string(),
               has_mask ? "its loss_mask is 1 nowhere but where a document begins"
                        : "every document is one token long");
}

void warn_of_holdout(const corpus::TokenizeReport& report, const corpus::TokenizeOptions& options) {
  const std::filesystem::path file = corpus::holdout_path(options.output);
  if (report.holdout_documents == 0)
    log::warning("{} is empty, and jobs will refuse it: a share of {} chose none of {}; take a larger one",
                 file.string(), options.holdout_share, counted(report.documents, "document"));
  else
    warn_without_target(file, report.holdout_targets, report.has_mask);
}

void tell(const corpus::TokenizeReport& report, const corpus::TokenizeOptions& options, double seconds) {
  console::line("{}: {} in {}, {:.1f} s", options.output.string(), counted(report.tokens, "token"),
                counted(report.documents, "document"), seconds);
  if (options.holdout_share > 0)
    console::line("{}: {} in {}, held out", corpus::holdout_path(options.output).string(),
                  counted(report.holdout_tokens, "token"), counted(report.holdout_documents, "document"));
  for (std::size_t source = 0; source < report.cuts.size(); ++source)
    if (report.cuts[source] > 0)
      console::line("{}: one document, of which the end is held out, from byte {} on",
                    options.sources[source].string(), report.cuts[source]);
  if (report.has_mask) console::line("{} tokens count in the loss", report.targets + report.holdout_targets);
  warn_without_target(options.output, report.targets, report.has_mask);
  if (options.holdout_share > 0) warn_of_holdout(report, options);
  for (const std::string& line : corpus::unused_key_lines(options, report)) console::line("{}", line);
  if (report.pairs > 0) console::line("{}", counted(report.pairs, "pair"));
  for (const std::string& warning : corpus::pair_warnings(report)) log::warning("{}", warning);
  if (report.empty_documents > 0) console::line("{} empty documents skipped", report.empty_documents);
  if (report.answers.endless > 0)
    log::warning("{}: {}", options.output.string(), endless_text(report.answers));
  if (report.repairs > 0)
    log::warning("{} places are no UTF-8 and were read as U+FFFD; are the sources in another encoding?",
                 report.repairs);
  if (report.bad_line_count > 0)
    log::warning("{} bad lines skipped:{}{}", report.bad_line_count,
                 lines_of_some(report.bad_lines, report.bad_lines.size()),
                 report.bad_line_count > std::ssize(report.bad_lines) ? "\n    and more" : "");
}

/// Tokenizes texts and conversations to a token file. Returns 0, or 128 plus a signal's number if one ended
/// it, with nothing written.
int tokenize_command(corpus::TokenizeOptions options) {
  if (options.threads == 0) options.threads = usable_cores();
  if (options.row.answers == Answers::kPair && options.loss == corpus::Loss::kAll)
    fail(ExitCode::kUsage,
         "--loss: found all, expected assistant or last with --pairs: prompts are not learnt");
  SignalWatch watch;
  SignalWatch::StopRequest stop(watch);
  options.stops = [&] { return stop.number() != 0; };
  const Stopwatch clock;
  ProgressLine progress("tokenize");
  options.progress = std::ref(progress);
  const corpus::TokenizeReport report = corpus::tokenize(options);
  if (report.is_stopped) {
    console::report(
        fmt::format("sluice: {} ended the work; nothing was written", signal_name(stop.number())));
    return 128 + stop.number();
  }
  tell(report, options, clock.seconds());
  return 0;
}

}  // namespace

void add_tokenize(CommandLine& line) {
  using namespace corpus;
  const auto [command, arguments] = add_command<TokenizeOptions>(
      line, "tokenize", "Turn text, JSONL and chats into a file of tokens", tokenize_command);
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
  add_choice(
      command, "--documents", arguments.documents,
      {{"eot", DocumentEnds::kEndOfText}, {"file", DocumentEnds::kFile}, {"blank", DocumentEnds::kBlank}},
      "Where a text's documents end: eot (end token), file, blank (line)");
  command.add_option("--field", arguments.row.field, "Key of the text in JSONL; default: a chat, or 'text'");
  command.add_option("--template", arguments.chat_template,
                     "Chat template for chats, a file; default: the model's");
  command.add_option("--eos", arguments.end_token, "Token that ends a document; default: the model's")
      ->check([](const std::string& token) {
        return token.empty() ? std::string("found \"\", expected a token; --no-eos adds none") : "";
      });
  command.add_flag("!--no-eos", arguments.adds_end_token, "Add no such token");
  add_choice(command, "--loss", arguments.loss,
             {{"assistant", Loss::kAssistant}, {"all", Loss::kAll}, {"last", Loss::kLast}},
             "What counts in a chat: assistant (its messages), all, last (message)");
  add_choice(command, "--answer", arguments.row.answers,
             {{"chosen", Answers::kChosen}, {"rejected", Answers::kRejected}},
             "Answer to learn of rows with two: chosen, rejected");
  command
      .add_flag_callback(
          "--pairs", [&arguments = arguments] { arguments.row.answers = Answers::kPair; },
          "Keep both answers of each row, for job.kind = \"prefer\"")
      ->excludes("--answer");
  add_choice(command, "--tools", arguments.row.keeps_tools, {{"keep", true}, {"drop", false}},
             "Tools and calls of chats: keep, drop");
  add_choice(command, "--reasoning", arguments.row.keeps_reasoning, {{"keep", true}, {"drop", false}},
             "Reasoning in chats: keep, drop");
  add_choice(command, "--bad-lines", arguments.bad_lines,
             {{"error", BadLines::kError}, {"skip", BadLines::kSkip}},
             "Lines that cannot be read: error, skip");
  command.add_option("--threads", arguments.threads, "Threads; default: all cores")
      ->check(CLI::Range(1, 1024));
}

}  // namespace sluice
