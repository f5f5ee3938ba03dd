#include "job/prepare/text_tokens.hpp"

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "comm/long_work.hpp"
#include "comm/run_together.hpp"
#include "corpus/source/source_form.hpp"
#include "corpus/text_source.hpp"
#include "corpus/tokenize.hpp"
#include "io/path.hpp"
#include "job/console.hpp"
#include "job/prepare/process_limits.hpp"
#include "job/progress_line.hpp"

#include <functional>
#include <system_error>

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// Calls a function with every path from which the job reads tokens.
void for_each_token_path(JobConfig& config, const std::function<void(fs::path& path)>& visit) {
  const bool trains = config.job.kind == JobKind::kTrain;
  if (!trains && config.job.kind != JobKind::kEvaluate) return;
  if (!config.data.tokens.empty()) visit(config.data.tokens);
  if (!trains) return;
  for (SourceSettings& source : config.data.source) visit(source.tokens);
  if (config.evaluate.every_steps == 0) return;
  for (fs::path& tokens : config.evaluate.tokens) visit(tokens);
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
  if (report.repairs > 0)
    log::warning("{} places of {} are no UTF-8 and were read as U+FFFD; is it in another encoding?",
                 report.repairs, text.string());
}

fs::path token_file_of(const fs::path& text, const JobContext& context, const std::function<void()>& tell) {
  const std::string name = corpus::token_file_name(text, context.config().model.path, tell);
  const fs::path target = context.directory.file("tokens") / name;
  if (fs::exists(target))
    console::line("tokens    of {} are there already: {}", text.string(), target.string());
  else
    make_tokens(text, target, context, tell);
  return target;
}

}  // namespace

std::vector<fs::path> texts_of(const JobConfig& config) {
  JobConfig copy = config;
  std::vector<fs::path> texts;
  for_each_token_path(copy, [&](const fs::path& path) {
    if (corpus::is_text(path)) texts.push_back(path);
  });
  return texts;
}

JobConfig with_token_files(JobContext& context) {
  JobConfig config = context.config();
  for_each_token_path(config, [&](fs::path& path) {
    // Only rank 0 looks, because other machines need not have the file.
    fs::path made;
    run_long_on_root(context.comm, [&](const std::function<void()>& tell) {
      made = corpus::is_text(path) ? token_file_of(path, context, tell) : path;
    });
    path = share_from_root(context.comm, [&] { return made.string(); });
  });
  return config;
}

}  // namespace sluice
