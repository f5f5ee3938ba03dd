// Reader of job files: turns entries into a JobConfig, and collects every problem before it fails.
#include "base/error.hpp"
#include "base/text.hpp"
#include "config/expand.hpp"
#include "config/key_hints.hpp"
#include "config/schema.hpp"
#include "config/toml_source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <variant>

namespace sluice {
namespace {

constexpr std::int64_t kMaxFileBytes = kMiB;

/// Largest number of tokens per step: more than ten times that of the largest published runs, and small
/// enough that plans can count bytes in 63 bits, if a token takes less than 8 GiB.
constexpr std::int64_t kMaxStepTokens = std::int64_t{1} << 30;

std::string missing_text(const KeyInfo& key, const std::string& name) {
  return fmt::format("{}: found nothing, expected {} ({})", name, key.expected, key.help);
}

/// Normal form of a path: one spelling for "a/b", "./a/b" and "a/b/".
std::filesystem::path plain(const std::filesystem::path& path) {
  const std::filesystem::path normal = path.lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

/// Normal form of a path from the root on, so that relative and absolute paths can be compared. Links are not
/// followed.
std::filesystem::path place_of(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return plain(error ? path : absolute);
}

/// Whether two paths lead to one file, however they are spelled, and through links too; false for empty
/// paths.
bool is_same_place(const std::filesystem::path& a, const std::filesystem::path& b) {
  if (a.empty() || b.empty()) return false;
  if (place_of(a) == place_of(b)) return true;
  std::error_code error;
  return std::filesystem::equivalent(a, b, error) && !error;
}

/// First component of the way from a directory to a path: "." if they are the same, ".." if it leads out, ""
/// if a path is missing.
std::string first_step(const std::filesystem::path& directory, const std::filesystem::path& path) {
  const std::filesystem::path way = path.lexically_relative(directory);
  return way.empty() ? "" : way.begin()->string();
}

bool is_at_or_below(const std::filesystem::path& path, const std::filesystem::path& directory) {
  const std::string step = first_step(directory, path);
  return !step.empty() && step != "..";
}

/// Whether a run directory has a file of its own with this name (job/run_directory.hpp).
bool is_of_run_directory(const std::string& name) {
  return name == "lock" || name == "job.toml" || name == "status.json" || name == "logs" ||
         name == "checkpoints" || name == "tokens" || name == "trace";
}

class JobReader {
 public:
  explicit JobReader(std::string file_name) : file_name_(std::move(file_name)) {}

  void take(const Entry& entry);
  void check_required();
  void check_contradictions();
  void expect_load_settings();
  void expect_quantisable_weights();
  void expect_source_settings();
  void expect_export_settings();
  void expect_held_out_settings();
  void expect_lora_settings();
  void expect_optimizer_settings();
  void expect_result_files();
  void expect_result_file(const std::string& key, const std::filesystem::path& file);
  /// The finished config. Throws if there was any problem.
  [[nodiscard]] JobConfig done();

 private:
  void take_table(const Entry& entry);
  void take_value(const Field& field, const Entry& entry);
  [[nodiscard]] std::optional<Value> value_of(const KeyInfo& key, const std::string& name, Entry entry,
                                              const std::function<bool(const Value&)>& take);
  [[nodiscard]] std::optional<Rows> rows_of(const Field& field, const Entry& entry);
  [[nodiscard]] std::vector<Cell> cells_of(const Field& field, const std::string& name, const EntryRow& row);
  void refuse(const KeyInfo& key, const std::string& name, const Entry& entry);
  void problem(const std::string& where, const std::string& text) {
    problems_.push_back(where + ": " + text);
  }
  /// Reports `text` at the first of `keys` unless `holds`, or unless one of the keys has a problem of its
  /// own.
  void expect(bool holds, std::initializer_list<std::string> keys, const std::string& text);

  std::string file_name_;
  JobConfig config_;
  std::vector<std::string> problems_;
  std::map<std::string, std::string> where_;  ///< last place in the job of every key that it gives
  std::set<std::string> refused_;             ///< keys whose last value has a problem
};

void JobReader::take(const Entry& entry) {
  if (entry.key.empty()) return take_table(entry);
  const Table* table = find_table(entry.table);
  if (table == nullptr) return;  // the problem was reported with the table's own entry
  const Field* field = find_field(*table, entry.key);
  if (field != nullptr) return take_value(*field, entry);
  problem(entry.where, fmt::format("{}.{}: unknown key, {}", table->name, printable(entry.key),
                                   key_hint(*table, entry.key)));
}

void JobReader::take_table(const Entry& entry) {
  if (find_table(entry.table) == nullptr)
    problem(entry.where, fmt::format("{}: unknown table, {}", printable(entry.table),
                                     entry.found == "a table" ? table_hint(entry.table)
                                                              : hint_outside_tables(entry.table)));
  else if (entry.found != "a table")
    problem(entry.where, fmt::format("{}: found {}, expected a table", entry.table, entry.found));
}

void JobReader::take_value(const Field& field, const Entry& entry) {
  const std::string name = field.name();
  where_[name] = entry.where;
  refused_.insert(name);
  const auto store = [&](const Value& value) { return field.store(value, config_); };
  if (field.columns.empty() || entry.rows.empty()) {
    if (!value_of(field, name, entry, store)) return;  // the problem has been reported
  } else {
    const std::optional<Rows> rows = rows_of(field, entry);
    if (!rows) return;
    if (!store(*rows)) return refuse(field, name, entry);
  }
  refused_.erase(name);
}

/// The reading of an entry's value, variables expanded, that `take` accepts; nothing, with the problem
/// reported, if it accepts none.
std::optional<Value> JobReader::value_of(const KeyInfo& key, const std::string& name, Entry entry,
                                         const std::function<bool(const Value&)>& take) {
  const ExpandedValue expanded = expand_value(entry.value, TextKind{key.is_path});
  if (!expanded.problem.empty()) {
    problem(entry.where, fmt::format("{}: found {}, but {}", name, entry.found, expanded.problem));
    return std::nullopt;
  }
  for (const Value& reading : expanded.readings)
    if (take(reading)) return reading;
  if (!expanded.outcome.empty())
    entry.found = fmt::format("{}, which is {}", entry.found, printable(expanded.outcome, 80));
  refuse(key, name, entry);
  return std::nullopt;
}

/// Rows of a list of tables; nothing, with every problem reported, if a table has any.
std::optional<Rows> JobReader::rows_of(const Field& field, const Entry& entry) {
  const std::size_t problems = problems_.size();
  Rows rows;
  for (const EntryRow& row : entry.rows)
    rows.push_back(cells_of(field, fmt::format("{}[{}]", field.name(), rows.size()), row));
  if (problems_.size() > problems) return std::nullopt;
  return rows;
}

std::vector<Cell> JobReader::cells_of(const Field& field, const std::string& name, const EntryRow& row) {
  std::vector<Cell> cells;
  for (const Entry& entry : row.cells) {
    const std::string cell_name = name + "." + printable(entry.key);
    const auto column = std::ranges::find(field.columns, entry.key, &ListKey::key);
    if (column == field.columns.end()) {
      problem(entry.where, fmt::format("{}: unknown key, {}", cell_name, column_hint(field, entry.key)));
      continue;
    }
    if (const std::optional<Value> value = value_of(*column, cell_name, entry, column->check))
      cells.push_back({entry.key, *value});
  }
  for (const ListKey& column : field.columns)
    if (column.required && std::ranges::find(row.cells, column.key, &Entry::key) == row.cells.end())
      problem(row.where, missing_text(column, name + "." + column.key));
  return cells;
}

void JobReader::refuse(const KeyInfo& key, const std::string& name, const Entry& entry) {
  problem(entry.where, fmt::format("{}: found {}, expected {}", name, entry.found, key.expected));
}

void JobReader::check_required() {
  for (const Table& table : schema())
    for (const Field& field : table.fields)
      if (field.required && !where_.contains(field.name()))
        problem(file_name_, missing_text(field, field.name()));
}

void JobReader::expect(bool holds, std::initializer_list<std::string> keys, const std::string& text) {
  if (holds) return;
  for (const std::string& key : keys)
    if (refused_.contains(key)) return;
  const std::string& first = *keys.begin();
  const auto place = where_.find(first);
  problem(place == where_.end() ? file_name_ : place->second, fmt::format("{}: {}", first, text));
}

void JobReader::check_contradictions() {
  const JobConfig& c = config_;
  const bool trains = c.job.kind == JobKind::kTrain;
  const bool reads_tokens = trains || c.job.kind == JobKind::kEvaluate;
  expect(
      !reads_tokens || !c.data.tokens.empty() || (trains && !c.data.source.empty()),
      {"data.tokens", "job.kind", "data.source"},
      fmt::format(
          "found nothing, expected an HDF5 file with the dataset tokens, because job.kind is \"{}\"{}",
          trains ? "train" : "evaluate", c.data.source.empty() ? "" : "; data.source is for training alone"));
  expect(!trains || c.data.tokens.empty() || c.data.source.empty(), {"data.source", "data.tokens"},
         "found together with data.tokens, expected one of them: data.tokens = \"\" trains on the sources, "
         "data.source = [] on that file alone");
  const bool generates = c.job.kind == JobKind::kGenerate;
  const bool answers = generates || (trains && c.generate.every_steps > 0);
  expect(!answers || !c.generate.prompts.empty(), {"generate.prompts", "job.kind", "generate.every_steps"},
         fmt::format("found nothing, expected a JSONL file of prompts, because {}",
                     generates ? "job.kind is \"generate\"" : "generate.every_steps is not 0"));
  expect(c.evaluate.every_steps == 0 || !trains || !c.evaluate.tokens.empty(),
         {"evaluate.tokens", "evaluate.every_steps"},
         "found nothing, expected token files, because evaluate.every_steps is not 0");
  expect_held_out_settings();
  expect(reads_tokens || generates || c.model.init == ModelInit::kCheckpoint, {"model.init", "job.kind"},
         fmt::format("found \"random\", expected \"checkpoint\", because job.kind is \"{}\"",
                     c.job.kind == JobKind::kExport ? "export" : "load"));
  expect_load_settings();
  expect_export_settings();
  expect_lora_settings();
  expect_optimizer_settings();
  expect(c.schedule.warmup_steps <= c.train.steps, {"schedule.warmup_steps", "train.steps"},
         fmt::format("found {}, expected at most train.steps, which is {}", c.schedule.warmup_steps,
                     c.train.steps));
  expect(
      c.train.batch_sequences <= kMaxStepTokens / c.data.sequence_length,
      {"train.batch_sequences", "data.sequence_length"},
      fmt::format("found {} sequences of data.sequence_length = {} tokens, expected at most {} tokens a step",
                  c.train.batch_sequences, c.data.sequence_length, kMaxStepTokens));
  expect(!is_same_place(c.job.output, c.model.path), {"job.output", "model.path"},
         "found the directory of model.path, expected another");
  expect_result_files();
}

void JobReader::expect_load_settings() {
  const JobConfig& c = config_;
  expect(c.load.memory_limit_bytes == 0 || c.load.memory_limit_bytes >= c.load.chunk_bytes,
         {"load.memory_limit", "load.chunk"},
         fmt::format("found {} bytes, expected 0 or at least load.chunk, which is {} bytes",
                     c.load.memory_limit_bytes, c.load.chunk_bytes));
  expect(
      c.job.kind == JobKind::kLoad || c.load.sink == LoadSink::kShards, {"load.sink", "job.kind"},
      "found \"discard\", expected \"shards\", because only job.kind = \"load\" can do without its weights");
  expect(!c.load.verify || c.load.sink == LoadSink::kShards, {"load.verify", "load.sink"},
         "found true, expected false, because load.sink = \"discard\" keeps nothing to compare");
  expect(
      c.model.frozen_format == FrozenFormat::kDType || c.memory.offload != Offload::kDisk,
      {"model.frozen_format", "memory.offload"},
      fmt::format(
          "found \"{}\", expected \"dtype\", because memory.offload = \"disk\" moves weights of model.dtype "
          "alone",
          name_of(c.model.frozen_format)));
  expect_quantisable_weights();
  expect_source_settings();
  if (c.model.init == ModelInit::kCheckpoint) return;
  expect(!c.load.verify, {"load.verify", "model.init"},
         "found true, expected false, because model.init = \"random\" reads no weights to compare");
  expect(c.load.memory_limit_bytes == 0, {"load.memory_limit", "model.init"},
         fmt::format("found {} bytes, expected 0, because model.init = \"random\" loads nothing",
                     c.load.memory_limit_bytes));
}

/// Checks the settings that weights quantised while loading need.
void JobReader::expect_quantisable_weights() {
  const JobConfig& c = config_;
  if (!is_quantised_by_load(c.model.frozen_format)) return;
  const std::string format = name_of(c.model.frozen_format);
  expect(c.model.init == ModelInit::kCheckpoint, {"model.frozen_format", "model.init"},
         fmt::format(
             "found \"{}\", expected \"dtype\", because weights are quantised while they are loaded, and "
             "model.init = \"random\" loads none",
             format));
  expect(!c.load.verify, {"load.verify", "model.frozen_format"},
         fmt::format(
             "found true, expected false, because with model.frozen_format = \"{}\" memory does not hold the "
             "numbers of the files",
             format));
}

/// Checks the settings that weights left in the files of model.path need.
void JobReader::expect_source_settings() {
  const JobConfig& c = config_;
  if (c.memory.offload != Offload::kSource) return;
  expect(
      c.model.init == ModelInit::kCheckpoint, {"memory.offload", "model.init"},
      "found \"source\", expected it with model.init = \"checkpoint\", because drawn weights lie in no file");
  expect(c.model.frozen_format == FrozenFormat::kStored, {"memory.offload", "model.frozen_format"},
         "found \"source\", expected it with model.frozen_format = \"stored\", because what is read in every "
         "pass is what was published");
  expect(
      c.load.readers != Readers::kRank0, {"memory.offload", "load.readers"},
      "found \"source\", expected it with load.readers = \"all\" or \"node\", because every rank reads the "
      "files of model.path itself");
}

void JobReader::expect_export_settings() {
  const JobConfig& c = config_;
  const bool by_kind = c.job.kind == JobKind::kExport;
  expect(
      c.job.kind != JobKind::kTrain || c.export_.ends_with_export() || c.export_.path.empty(),
      {"export.path", "export.at_end", "job.kind"},
      "found a directory, expected export.at_end = true with it, because training writes no weights without");
  if (!by_kind && (c.job.kind != JobKind::kTrain || !c.export_.ends_with_export())) return;
  const std::filesystem::path path = plain(c.export_.path);
  expect(!path.empty(), {"export.path", "job.kind", "export.at_end"},
         fmt::format("found nothing, expected a directory to write, because {}",
                     by_kind                                  ? "job.kind is \"export\""
                     : c.export_.at_end == ExportAtEnd::kBest ? "export.at_end is \"best\""
                                                              : "export.at_end is true"));
  const bool is_as_source = c.export_.format == ExportFormat::kSource;
  expect(!is_as_source || c.model.init == ModelInit::kCheckpoint, {"export.format", "model.init"},
         "found \"source\", expected \"plain\", because model.init = \"random\" reads no weights");
  expect(!is_as_source || c.export_.experts == ExportExperts::kSource, {"export.experts", "export.format"},
         "found another layout, expected \"source\", because export.format is \"source\"");
  expect(!is_same_place(path, c.model.path), {"export.path", "model.path"},
         "found the directory of model.path, expected another");
  expect(!is_same_place(path, c.job.output), {"export.path", "job.output"},
         "found the directory of job.output, expected another");
}

/// Checks keys that depend on the held-out loss: they need evaluations, and checkpoints that keep the best
/// step.
void JobReader::expect_held_out_settings() {
  const JobConfig& c = config_;
  if (c.job.kind != JobKind::kTrain) return;
  const bool evaluates = c.evaluate.every_steps > 0, wants_best = c.export_.at_end == ExportAtEnd::kBest;
  expect(c.evaluate.patience == 0 || evaluates, {"evaluate.patience", "evaluate.every_steps"},
         fmt::format("found {}, expected 0, because evaluate.every_steps is 0, so that nothing is evaluated",
                     c.evaluate.patience));
  expect(
      !wants_best || evaluates, {"export.at_end", "evaluate.every_steps"},
      "found \"best\", expected evaluate.every_steps above 0 with it, because without evaluations no step is "
      "the best");
  expect(
      !wants_best || c.checkpoint.saves(),
      {"export.at_end", "checkpoint.every_steps", "checkpoint.every_minutes"},
      "found \"best\", expected checkpoint.every_steps or checkpoint.every_minutes above 0 with it, because "
      "it is a saved step that is exported");
}

void JobReader::expect_lora_settings() {
  const LoraSettings& lora = config_.lora;
  if (config_.job.kind != JobKind::kTrain) return;
  expect(config_.model.adapter.empty(), {"model.adapter", "job.kind"},
         "found a directory, expected none, because training begins with the adapter of lora.start");
  expect(
      lora.trains() || lora == LoraSettings(), {"lora.rank", "lora.start"},
      "found 0, expected at least 1, because other keys of [lora] are there; without adapters leave all of "
      "them out");
  if (!lora.trains()) return;
  expect(!lora.targets.empty() || !lora.start.empty(), {"lora.targets", "lora.rank", "lora.start"},
         "found nothing, expected \"all-linear\", names of modules, or patterns of tensor names");
  expect(config_.train.freeze.empty(), {"train.freeze", "lora.rank", "lora.start"},
         "found patterns, expected none, because with adapters every weight of the model is frozen");
}

/// Checks that the optimizer's formats fit its kind and the weights' type.
void JobReader::expect_optimizer_settings() {
  OptimizerSettings& o = config_.optimizer;
  expect(!o.release_gradients || !where_.contains("optimizer.gradients") ||
             o.gradients == GradientMode::kRelease,
         {"optimizer.release_gradients", "optimizer.gradients"},
         "found true, expected optimizer.gradients = \"release\" with it, or this key left out");
  if (std::exchange(o.release_gradients, false)) o.gradients = GradientMode::kRelease;
  const bool is_adafactor = o.kind == OptimizerKind::kAdafactor;
  // With fit = "auto" the written state format does not matter; it is replaced by one that the optimizer kind
  // allows.
  if (o.fit == OptimizerFit::kAuto && is_adafactor != (o.state == StateFormat::kFactored))
    o.state = is_adafactor ? StateFormat::kFactored : StateFormat::kFloat32;
  expect(is_adafactor == (o.state == StateFormat::kFactored), {"optimizer.state", "optimizer.kind"},
         is_adafactor ? "found moments, expected \"factored\", because optimizer.kind is \"adafactor\""
                      : "found \"factored\", expected \"float32\", \"bfloat16\" or \"int8\", because only "
                        "optimizer.kind = \"adafactor\" has no moments");
  expect(
      config_.memory.offload != Offload::kDisk || config_.job.kind != JobKind::kTrain ||
          o.fit == OptimizerFit::kAuto || o.gradients == GradientMode::kRelease,
      {"memory.offload", "optimizer.gradients"},
      "found \"disk\", expected it with optimizer.gradients = \"release\" (or optimizer.fit = \"auto\"), so "
      "that a layer is updated while it is in memory");
  expect(config_.model.dtype == DType::kBFloat16 || o.master == MasterFormat::kFloat32,
         {"optimizer.master", "model.dtype"},
         "found fewer bits, expected \"float32\", because weights of model.dtype = \"float32\" are their own "
         "master");
}

void JobReader::expect_result_files() {
  const JobConfig& c = config_;
  expect_result_file("metrics.file", c.metrics.file);
  expect_result_file("generate.output", c.generate.output);
  if (c.debug.dump.empty()) return;
  expect_result_file("debug.dump", c.debug.dump);
  const std::filesystem::path dump = place_of(c.job.output / c.debug.dump);
  const std::filesystem::path metrics = place_of(c.job.output / c.metrics.file);
  expect(dump != metrics, {"debug.dump", "metrics.file"}, "found the file of metrics.file, expected another");
  expect(dump == metrics || !(is_at_or_below(dump, metrics) || is_at_or_below(metrics, dump)),
         {"debug.dump", "metrics.file"},
         "found a path through metrics.file or to its folder, expected another");
}

/// Absolute paths may lead anywhere except to what the job reads: with job.overwrite the file at the path is
/// replaced.
void JobReader::expect_result_file(const std::string& key, const std::filesystem::path& file) {
  const JobConfig& c = config_;
  const std::filesystem::path place = place_of(c.job.output / file);
  const std::string first = first_step(place_of(c.job.output), place);
  const bool is_outside = first == "..";
  expect(first != ".", {key, "job.output"}, "found the run directory, expected a file");
  expect(!is_outside || file.is_absolute(), {key, "job.output"},
         "found a path out of the run directory, expected one in it, or an absolute path");
  expect(!is_of_run_directory(first), {key, "job.output"},
         fmt::format("found \"{}\", expected another name, because the run directory keeps its own \"{}\"",
                     file.string(), first));
  expect(c.data.tokens.empty() || place != place_of(c.data.tokens), {key, "data.tokens"},
         "found the file of data.tokens, expected another");
  expect(std::ranges::none_of(c.data.source,
                              [&](const SourceSettings& s) { return place == place_of(s.tokens); }),
         {key, "data.source"}, "found a file of data.source, expected another");
  expect(!is_outside || !is_at_or_below(place, place_of(c.model.path)), {key, "model.path"},
         "found a file in the directory of model.path, expected another");
}

JobConfig JobReader::done() {
  if (!problems_.empty()) fail(ExitCode::kBadConfig, "{}", fmt::join(problems_, "\n"));
  return std::move(config_);
}

/// Bytes of a small file; reads at most one byte too many, so that reading a device file ends.
std::string read_small_file(const std::filesystem::path& file) {
  const std::string name = printable(file.string());
  std::error_code ignored;  // a fault here shows again when the file is opened
  if (std::filesystem::is_directory(file, ignored))
    fail(ExitCode::kBadConfig, "{}: found a directory, expected a job file", name);
  std::ifstream in(file, std::ios::binary);
  if (!in) fail(ExitCode::kBadConfig, "{}: cannot open the job file: {}", name, errno_text(errno));
  std::string text(static_cast<std::size_t>(kMaxFileBytes) + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) fail(ExitCode::kBadConfig, "{}: cannot read the job file: {}", name, errno_text(errno));
  if (in.gcount() > kMaxFileBytes)
    fail(ExitCode::kBadConfig, "{}: found more than {}, expected a job file", name,
         format_mib(kMaxFileBytes));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

}  // namespace

JobConfig parse_job_config(std::string_view text, const std::string& file_name,
                           std::span<const std::string> overrides) {
  const std::string name = printable(file_name);
  JobReader reader(name);
  std::vector<Entry> assigned;
  for (const std::string& assignment : overrides)
    for (Entry& entry : parse_override(assignment)) assigned.push_back(std::move(entry));
  for (const Entry& entry : parse_toml(text, name)) reader.take(entry);
  for (const Entry& entry : assigned) reader.take(entry);
  reader.check_required();
  reader.check_contradictions();
  return reader.done();
}

JobConfig load_job_config(const std::filesystem::path& file, std::span<const std::string> overrides) {
  return parse_job_config(read_small_file(file), file.string(), overrides);
}

}  // namespace sluice
