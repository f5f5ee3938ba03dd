#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/step_source.hpp"
#include "io/file.hpp"
#include "io/path.hpp"
#include "job/commands/commands.hpp"
#include "job/commands/run_files.hpp"
#include "process/console.hpp"
#include "process/status_file.hpp"
#include "report/other_results.hpp"
#include "report/report_page.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace sluice {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct ReportArguments {
  std::vector<fs::path> runs;  ///< run directories
  fs::path output;             ///< page to write; "": report.html in the first run
};

using Facts = std::vector<std::pair<std::string, std::string>>;

std::string name_of(const fs::path& directory) {
  const fs::path whole = fs::absolute(directory).lexically_normal();
  return printable((whole.has_filename() ? whole : whole.parent_path()).filename().string());
}

/// Text of a value in a JSON object; "" if there is none.
std::string text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? "" : json_text(*found);
}

void add_status(const RunFiles& files, Facts& facts) {
  const json status = read_status(files.directory);
  facts.emplace_back("kind", files.kind());
  for (const auto& [key, label] : {std::pair{"state", "state"},
                                   {"message", "message"},
                                   {"exit_code", "exit code"},
                                   {"attempt", "attempt"},
                                   {"started", "started"},
                                   {"updated", "updated"}})
    if (const auto found = status.find(key); found != status.end())
      facts.emplace_back(label, json_text(*found));
}

void add_metrics_facts(const JoinedMetrics& metrics, Facts& facts) {
  if (metrics.rows() > 0)
    facts.emplace_back("steps", fmt::format("{} to {}", metrics.steps().front(), metrics.steps().back()));
  if (const auto files = metrics.segment_starts().size(); files > 1)
    facts.emplace_back("metrics files", fmt::format("{}", files));
  if (const JoinedColumn* left_out = metrics.find("train/left_out"); left_out != nullptr) {
    const std::vector<double> rows = metrics.read(*left_out, 0, metrics.rows());
    facts.emplace_back("updates skipped", fmt::format("{}", std::ranges::count(rows, 1.0)));
  }
  if (const JoinedColumn* ranks = metrics.find("memory/peak_bytes"); ranks != nullptr)
    facts.emplace_back("ranks", fmt::format("{}", ranks->elements()));
  for (const auto& [key, label] : {std::pair{"host", "host of rank 0"},
                                   {"program", "program"},
                                   {"version", "version"},
                                   {"git_revision", "revision"},
                                   {"structure_hash", "structure hash"}})
    if (const std::string text = metrics.text(key); !text.empty()) facts.emplace_back(label, text);
}

void add_job_facts(const JobConfig& config, Facts& facts) {
  facts.emplace_back("model", config.model.path.string());
  facts.emplace_back("tokens", config.data.tokens.string());
  facts.emplace_back("a step", fmt::format("{} of {}", counted(config.train.batch_sequences, "sequence"),
                                           counted(config.data.sequence_length, "token")));
}

/// Adds the results of a job that does not train.
void add_other_results(const RunFiles& files, ReportRun& run) {
  constexpr std::int64_t kMostDocuments = 50;
  if (const std::string progress = progress_text(read_status(files.directory)); progress != "-")
    run.facts.emplace_back("done", progress);
  const std::vector<fs::path> segments = files.segments();
  if (segments.empty()) return;
  if (const std::vector<LoadResult> ranks = read_load(segments.back()); !ranks.empty())
    run.facts.emplace_back("loaded", load_text(ranks));
  const auto evaluation = read_evaluation(segments.back(), kMostDocuments);
  if (!evaluation) return;
  run.facts.emplace_back("evaluated", fmt::format("{} of {}", counted(evaluation->tokens, "token"),
                                                  counted(evaluation->documents, "document")));
  run.facts.emplace_back("loss, nat a token", fmt::format("{:.5f}", evaluation->loss));
  run.facts.emplace_back("perplexity", fmt::format("{:.4f}", evaluation->perplexity));
  for (const EvaluatedDocument& document : evaluation->worst)
    run.documents.push_back({fmt::format("{}", document.document), fmt::format("{}", document.tokens),
                             fmt::format("{:.5f}", document.loss),
                             fmt::format("{:.4f}", document.perplexity)});
}

void add_results_without_steps(const RunFiles& files, ReportRun& run) {
  if (files.kind() == "train")
    run.notes.emplace_back("there are no rows of steps yet");
  else
    add_other_results(files, run);
}

/// Whether the directory is certainly a run's; false if status.json is broken, which a note will tell.
bool is_run_surely(const RunFiles& files) {
  try {
    return files.is_run();
  } catch (const Error&) {
    return false;
  }
}

/// Metrics of a run. A job's own metrics may have no step yet; a directory that is not a job's must have
/// some.
JoinedMetrics metrics_of(const RunFiles& files) {
  return is_run_surely(files) ? JoinedMetrics(files.segments()) : files.metrics();
}

/// Sample in a line of a file of answers, of a generation or of a training; nothing for any other line.
std::optional<ReportSample> sample_of(const std::string& line) {
  const json sample = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!sample.is_object()) return std::nullopt;
  const json step = sample.value("step", json(-1));
  if (!step.is_number_integer() || !sample.contains("id")) return std::nullopt;
  const std::string text = text_of(sample, "text");
  return ReportSample{step.get<std::int64_t>(), text_of(sample, "id"),
                      sample.contains("text") ? text : text_of(sample, "tokens")};
}

std::vector<ReportSample> read_samples(const fs::path& file) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;
  std::vector<ReportSample> samples;
  if (!path_exists(file)) return samples;
  const std::string text = read_text_file(file, kMostBytes);
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    if (auto sample = sample_of(text.substr(begin, end - begin))) samples.push_back(std::move(*sample));
  return samples;
}

/// Reads one part; an exception becomes a note.
template <class Part>
void noting(std::vector<std::string>& notes, Part part) {
  try {
    part();
  } catch (const Error& error) {
    notes.emplace_back(error.what());
  }
}

/// Reads all small files of a run; the metrics stay open. Missing or broken files become a note.
/// Error(kBadData) for faults of the metrics.
ReportRun read_report_run(const fs::path& directory) {
  const RunFiles files = find_run_files(directory);
  ReportRun run{name_of(directory), metrics_of(files)};
  if (!files.job_refusal.empty()) run.notes.push_back(files.job_refusal);
  noting(run.notes, [&] { add_status(files, run.facts); });
  add_metrics_facts(run.metrics, run.facts);
  if (run.metrics.rows() == 0) noting(run.notes, [&] { add_results_without_steps(files, run); });
  if (files.config) {
    add_job_facts(*files.config, run.facts);
    for (const fs::path& file : files.config->evaluate.tokens)
      run.held_out_files.push_back(printable(file.filename().string()));
  }
  run.job = run.metrics.text("job_toml");
  noting(run.notes, [&] {
    const std::vector<StepPlace> steps = list_steps(files.checkpoints());
    run.checkpoints = rows_of_steps(list_as_json(steps));
    if (const HeldOutStep best = best_step(steps); best.step != 0)
      run.facts.emplace_back("best checkpoint",
                             fmt::format("step {}, held out {:.5f}", best.step, best.loss));
  });
  noting(run.notes, [&] { run.samples = read_samples(files.answers()); });
  return run;
}

/// Writes one HTML page about trainings, which may still be running. Error(kBadData) if one has no metrics.
int report_command(const ReportArguments& arguments) {
  std::vector<ReportRun> runs;
  for (const fs::path& directory : arguments.runs) runs.push_back(read_report_run(directory));
  const std::string page = report_page(runs);
  const fs::path file = arguments.output.empty() ? arguments.runs.front() / "report.html" : arguments.output;
  write_text_file(file, page);
  console::line("report    {}: {}", format_bytes(std::ssize(page)), file.string());
  return 0;
}

}  // namespace

void add_report(CommandLine& line) {
  const auto [command, arguments] = add_command<ReportArguments>(
      line, "report", "Write one HTML page that shows runs: loss, speed, memory, experts", report_command);
  command.add_option("run", arguments.runs, "Run directories, which may still be running")->required();
  command.add_option("-o,--output", arguments.output, "File to write; default: report.html in the first run");
}

}  // namespace sluice
