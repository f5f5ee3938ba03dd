#include "job/text_tokens.hpp"

#include "base/at_place.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "comm/long_work.hpp"
#include "comm/run_together.hpp"
#include "corpus/source/source_form.hpp"
#include "corpus/text_source.hpp"
#include "corpus/tokenize.hpp"
#include "io/path.hpp"
#include "job/prepare/options_of_job.hpp"
#include "process/console.hpp"
#include "process/process_limits.hpp"
#include "process/progress_line.hpp"

#include <functional>
#include <system_error>

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// Calls a function with every path from which the job reads tokens, and its key.
void for_each_token_path(JobConfig& config,
                         const std::function<void(fs::path& path, const std::string& key)>& visit) {
  const bool trains = is_training(config.job.kind);
  if (!trains && !evaluates_tokens(config.job.kind)) return;
  if (!config.data.tokens.empty()) visit(config.data.tokens, "data.tokens");
  if (!trains) return;
  for (std::size_t i = 0; i < config.data.source.size(); ++i)
    visit(config.data.source[i].tokens, key_of_source(i));
  if (config.evaluate.every_steps == 0) return;
  for (fs::path& tokens : config.evaluate.tokens) visit(tokens, "evaluate.tokens");
}

/// Removes leftovers of a killed run; this run holds the lock of its directory.
void remove_leftovers(const fs::path& directory) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory))
    if (entry.path().filename().string().starts_with(".")) fs::remove(entry.path(), ignored);
}

void make_tokens(const fs::path& text, const fs::path& target, const JobContext& context,
                 const std::function<void()>& tell) {
  make_directories(target.parent_path());
  remove_leftovers(target.parent_path());
  const Stopwatch clock;
  ProgressLine progress("tokenize");
  corpus::TokenizeOptions options;
  options.model = context.config().model.path;
  options.sources = {text};
  options.output = target;
  options.row = row_options(context.config());
  options.threads = usable_cores();
  options.progress = [&](std::int64_t done, std::int64_t total) {
    progress(done, total);
    tell();
  };
  const corpus::TokenizeReport report = corpus::tokenize(options);
  console::line("tokens    {} in {} of {}, {:.1f} s: {}", counted(report.tokens, "token"),
                counted(report.documents, "document"), text.string(), clock.seconds(), target.string());
  for (const std::string& line : corpus::unused_key_lines(options, report))
    console::line("data      {}", line);
  for (const std::string& warning : corpus::pair_warnings(report)) log::warning("{}", warning);
  if (report.repairs > 0)
    log::warning("{} places of {} are no UTF-8 and were read as U+FFFD; is it in another encoding?",
                 report.repairs, text.string());
}

fs::path token_file_of(const fs::path& text, const JobContext& context, const std::function<void()>& tell) {
  const corpus::TokenFileName names =
      corpus::token_file_name(text, context.config().model.path, tell, row_options(context.config()));
  const fs::path folder = context.directory.file("tokens");
  // A run that an earlier version began goes on with the tokens that it began with.
  const bool is_earlier = !fs::exists(folder / names.name) && fs::exists(folder / names.earlier);
  const fs::path target = folder / (is_earlier ? names.earlier : names.name);
  if (fs::exists(target))
    console::line("tokens    of {} are there already: {}", text.string(), target.string());
  else
    make_tokens(text, target, context, tell);
  return target;
}

}  // namespace

corpus::RowOptions row_options(const JobConfig& config) {
  return {.answers = config.job.kind == JobKind::kPrefer ? Answers::kPair : config.data.answer};
}

std::vector<NamedText> texts_of(const JobConfig& config) {
  JobConfig copy = config;
  std::vector<NamedText> texts;
  for_each_token_path(copy, [&](const fs::path& path, const std::string& key) {
    if (at_place(key, [&] { return corpus::is_text(path); })) texts.push_back({path, key});
  });
  return texts;
}

JobConfig with_token_files(JobContext& context) {
  JobConfig config = context.config();
  for_each_token_path(config, [&](fs::path& path, const std::string& key) {
    // Only rank 0 looks, because other machines need not have the file.
    fs::path made;
    run_long_on_root(context.comm, [&](const std::function<void()>& tell) {
      made = at_place(key, [&] { return corpus::is_text(path) ? token_file_of(path, context, tell) : path; });
    });
    path = share_from_root(context.comm, [&] { return made.string(); });
  });
  return config;
}

}  // namespace sluice
