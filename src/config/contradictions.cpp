#include "config/contradictions.hpp"

#include "config/schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

namespace sluice {
namespace {

/// Largest number of tokens per step: more than ten times that of the largest published runs, and small
/// enough that plans can count bytes in 63 bits, if a token takes less than 8 GiB.
constexpr std::int64_t kMaxStepTokens = std::int64_t{1} << 30;

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
  return name == "lock" || name == "job.toml" || name == "plan.json" || name == "status.json" ||
         name == "logs" || name == "checkpoints" || name == "tokens" || name == "trace" ||
         name == "reference";
}

/// Checks the settings that weights quantised while loading need.
void expect_quantisable_weights(const JobConfig& c, JobProblems& problems) {
  if (!is_quantised_by_load(c.model.frozen_format)) return;
  const std::string format = name_of(c.model.frozen_format);
  problems.expect(
      c.model.init == ModelInit::kCheckpoint, {"model.frozen_format", "model.init"},
      fmt::format(
          "found \"{}\", expected \"dtype\", because weights are quantised while they are loaded, and "
          "model.init = \"random\" loads none",
          format));
  problems.expect(
      !c.load.verify, {"load.verify", "model.frozen_format"},
      fmt::format(
          "found true, expected false, because with model.frozen_format = \"{}\" memory does not hold the "
          "numbers of the files",
          format));
}

/// Checks the settings that weights left in the files of model.path need.
void expect_source_settings(const JobConfig& c, JobProblems& problems) {
  if (c.memory.offload != Offload::kSource) return;
  problems.expect(
      c.model.init == ModelInit::kCheckpoint, {"memory.offload", "model.init"},
      "found \"source\", expected it with model.init = \"checkpoint\", because drawn weights lie in no file");
  problems.expect(
      c.model.frozen_format == FrozenFormat::kStored, {"memory.offload", "model.frozen_format"},
      "found \"source\", expected it with model.frozen_format = \"stored\", because what is read in every "
      "pass is what was published");
  problems.expect(
      c.load.readers != Readers::kRank0, {"memory.offload", "load.readers"},
      "found \"source\", expected it with load.readers = \"all\" or \"node\", because every rank reads the "
      "files of model.path itself");
}

void expect_load_settings(const JobConfig& c, JobProblems& problems) {
  problems.expect(c.load.memory_limit_bytes == 0 || c.load.memory_limit_bytes >= c.load.chunk_bytes,
                  {"load.memory_limit", "load.chunk"},
                  fmt::format("found {} bytes, expected 0 or at least load.chunk, which is {} bytes",
                              c.load.memory_limit_bytes, c.load.chunk_bytes));
  problems.expect(
      c.job.kind == JobKind::kLoad || c.load.sink == LoadSink::kShards, {"load.sink", "job.kind"},
      "found \"discard\", expected \"shards\", because only job.kind = \"load\" can do without its weights");
  problems.expect(!c.load.verify || c.load.sink == LoadSink::kShards, {"load.verify", "load.sink"},
                  "found true, expected false, because load.sink = \"discard\" keeps nothing to compare");
  problems.expect(
      c.model.frozen_format == FrozenFormat::kDType || c.memory.offload != Offload::kDisk,
      {"model.frozen_format", "memory.offload"},
      fmt::format(
          "found \"{}\", expected \"dtype\", because memory.offload = \"disk\" moves weights of model.dtype "
          "alone",
          name_of(c.model.frozen_format)));
  expect_quantisable_weights(c, problems);
  expect_source_settings(c, problems);
  if (c.model.init == ModelInit::kCheckpoint) return;
  problems.expect(!c.load.verify, {"load.verify", "model.init"},
                  "found true, expected false, because model.init = \"random\" reads no weights to compare");
  problems.expect(c.load.memory_limit_bytes == 0, {"load.memory_limit", "model.init"},
                  fmt::format("found {} bytes, expected 0, because model.init = \"random\" loads nothing",
                              c.load.memory_limit_bytes));
}

void expect_export_settings(const JobConfig& c, JobProblems& problems) {
  const bool by_kind = c.job.kind == JobKind::kExport;
  problems.expect(
      !is_training(c.job.kind) || c.export_.ends_with_export() || c.export_.path.empty(),
      {"export.path", "export.at_end", "job.kind"},
      "found a directory, expected export.at_end = true with it, because training writes no weights without");
  if (!by_kind && (!is_training(c.job.kind) || !c.export_.ends_with_export())) return;
  const std::filesystem::path path = plain(c.export_.path);
  problems.expect(!path.empty(), {"export.path", "job.kind", "export.at_end"},
                  fmt::format("found nothing, expected a directory to write, because {}",
                              by_kind                                  ? "job.kind is \"export\""
                              : c.export_.at_end == ExportAtEnd::kBest ? "export.at_end is \"best\""
                                                                       : "export.at_end is true"));
  const bool is_as_source = c.export_.format == ExportFormat::kSource;
  problems.expect(!is_as_source || c.model.init == ModelInit::kCheckpoint, {"export.format", "model.init"},
                  "found \"source\", expected \"plain\", because model.init = \"random\" reads no weights");
  problems.expect(!is_as_source || c.export_.experts == ExportExperts::kSource,
                  {"export.experts", "export.format"},
                  "found another layout, expected \"source\", because export.format is \"source\"");
  problems.expect(!is_same_place(path, c.model.path), {"export.path", "model.path"},
                  "found the directory of model.path, expected another");
  problems.expect(!is_same_place(path, c.job.output), {"export.path", "job.output"},
                  "found the directory of job.output, expected another");
}

/// Checks keys that depend on the held-out loss: they need evaluations, and checkpoints that keep the best
/// step.
void expect_held_out_settings(const JobConfig& c, JobProblems& problems) {
  if (!is_training(c.job.kind)) return;
  const bool evaluates = c.evaluate.every_steps > 0, wants_best = c.export_.at_end == ExportAtEnd::kBest;
  problems.expect(
      c.evaluate.patience == 0 || evaluates, {"evaluate.patience", "evaluate.every_steps"},
      fmt::format("found {}, expected 0, because evaluate.every_steps is 0, so that nothing is evaluated",
                  c.evaluate.patience));
  problems.expect(
      !wants_best || evaluates, {"export.at_end", "evaluate.every_steps"},
      "found \"best\", expected evaluate.every_steps above 0 with it, because without evaluations no step is "
      "the best");
  problems.expect(
      !wants_best || c.checkpoint.saves(),
      {"export.at_end", "checkpoint.every_steps", "checkpoint.every_minutes"},
      "found \"best\", expected checkpoint.every_steps or checkpoint.every_minutes above 0 with it, because "
      "it is a checkpoint that is exported");
}

void expect_lora_settings(const JobConfig& c, JobProblems& problems) {
  const LoraSettings& lora = c.lora;
  if (!is_training(c.job.kind)) return;
  problems.expect(c.model.adapter.empty(), {"model.adapter", "job.kind"},
                  "found a directory, expected none, because training begins with the adapter of lora.start");
  problems.expect(
      lora.trains() || lora == LoraSettings(), {"lora.rank", "lora.start"},
      "found 0, expected at least 1, because other keys of [lora] are there; without adapters leave all of "
      "them out");
  if (!lora.trains()) return;
  problems.expect(!lora.targets.empty() || !lora.start.empty(), {"lora.targets", "lora.rank", "lora.start"},
                  "found nothing, expected \"all-linear\", names of modules, or patterns of tensor names");
  problems.expect(c.train.freeze.empty(), {"train.freeze", "lora.rank", "lora.start"},
                  "found patterns, expected none, because with adapters every weight of the model is frozen");
}

/// Checks what is learnt of pairs, and the reference with which it is compared, which it chooses where that is left
/// open.
void expect_prefer_settings(JobConfig& c, JobProblems& problems) {
  if (c.job.kind != JobKind::kPrefer) return;
  PreferSettings& prefer = c.prefer;
  if (prefer.refers_to(PreferenceReference::kAuto))
    prefer.reference.kind =
        c.lora.trains() && c.lora.start.empty() ? PreferenceReference::kBase : PreferenceReference::kStart;
  problems.expect(
      c.data.answer == Answers::kAuto, {"data.answer", "job.kind"},
      "found one answer of two, expected \"auto\", because job.kind = \"prefer\" learns from both");
  const bool smooths = prefer.loss == PreferenceLoss::kSigmoid || prefer.loss == PreferenceLoss::kSigmoidNorm;
  problems.expect(prefer.label_smoothing == 0 || smooths, {"prefer.label_smoothing", "prefer.loss"},
                  fmt::format("found {:g}, expected 0, or prefer.loss = \"sigmoid\" or \"sigmoid_norm\"",
                              prefer.label_smoothing));
  const PreferenceReference reference = prefer.reference.kind;
  problems.expect(prefer.has_reference() || reference == PreferenceReference::kAuto,
                  {"prefer.reference", "prefer.loss"},
                  "found a reference, expected \"auto\", because prefer.loss = \"orpo\" compares with none");
  problems.expect(
      !prefer.walks_reference() || c.lora.trains(), {"prefer.reference", "lora.rank"},
      "found \"base\" in a training of the model's own weights, expected \"start\" or a file of scores, because "
      "\"base\" is the model without its adapters (lora.rank above 0 trains these)");
}

/// Checks that only a training learns from a teacher.
void expect_distil_settings(const JobConfig& c, JobProblems& problems) {
  problems.expect(
      !c.distil.learns() || c.job.kind == JobKind::kTrain, {"distil.teacher", "job.kind"},
      fmt::format("found a teacher, expected none, because job.kind is \"{}\", and only \"train\" "
                  "learns from one",
                  name_of(c.job.kind)));
}

/// Checks that the optimizer's formats fit its kind and the weights' type.
void expect_optimizer_settings(JobConfig& c, JobProblems& problems) {
  OptimizerSettings& o = c.optimizer;
  problems.expect(!o.release_gradients || !problems.is_given("optimizer.gradients") ||
                      o.gradients == GradientMode::kRelease,
                  {"optimizer.release_gradients", "optimizer.gradients"},
                  "found true, expected optimizer.gradients = \"release\" with it, or no such key");
  if (std::exchange(o.release_gradients, false)) o.gradients = GradientMode::kRelease;
  const bool is_adafactor = o.kind == OptimizerKind::kAdafactor;
  // With fit = "auto" the written state format does not matter; it is replaced by one that the optimizer kind
  // allows.
  if (o.fit == OptimizerFit::kAuto && is_adafactor != (o.state == StateFormat::kFactored))
    o.state = is_adafactor ? StateFormat::kFactored : StateFormat::kFloat32;
  problems.expect(is_adafactor == (o.state == StateFormat::kFactored), {"optimizer.state", "optimizer.kind"},
                  is_adafactor
                      ? "found moments, expected \"factored\", because optimizer.kind is \"adafactor\""
                      : "found \"factored\", expected \"float32\", \"bfloat16\" or \"int8\", because only "
                        "optimizer.kind = \"adafactor\" has no moments");
  problems.expect(
      c.memory.offload != Offload::kDisk || !is_training(c.job.kind) || o.fit == OptimizerFit::kAuto ||
          o.gradients == GradientMode::kRelease,
      {"memory.offload", "optimizer.gradients"},
      "found \"disk\", expected it with optimizer.gradients = \"release\" (or optimizer.fit = \"auto\"), so "
      "that a layer is updated while it is in memory");
  problems.expect(
      c.model.dtype == DType::kBFloat16 || o.master == MasterFormat::kFloat32,
      {"optimizer.master", "model.dtype"},
      "found fewer bits, expected \"float32\", because weights of model.dtype = \"float32\" are their own "
      "master");
}

/// Absolute paths may lead anywhere except to what the job reads: with job.overwrite the file at the path is
/// replaced.
void expect_result_file(const JobConfig& c, const std::string& key, const std::filesystem::path& file,
                        JobProblems& problems) {
  const std::filesystem::path place = place_of(c.job.output / file);
  const std::string first = first_step(place_of(c.job.output), place);
  const bool is_outside = first == "..";
  problems.expect(first != ".", {key, "job.output"}, "found the run directory, expected a file");
  problems.expect(!is_outside || file.is_absolute(), {key, "job.output"},
                  "found a path out of the run directory, expected one in it, or an absolute path");
  problems.expect(
      !is_of_run_directory(first), {key, "job.output"},
      fmt::format("found \"{}\", expected another name, because the run directory keeps its own \"{}\"",
                  file.string(), first));
  problems.expect(c.data.tokens.empty() || place != place_of(c.data.tokens), {key, "data.tokens"},
                  "found the file of data.tokens, expected another");
  problems.expect(std::ranges::none_of(c.data.source,
                                       [&](const SourceSettings& s) { return place == place_of(s.tokens); }),
                  {key, "data.source"}, "found a file of data.source, expected another");
  problems.expect(!is_outside || !is_at_or_below(place, place_of(c.model.path)), {key, "model.path"},
                  "found a file in the directory of model.path, expected another");
}

void expect_result_files(const JobConfig& c, JobProblems& problems) {
  expect_result_file(c, "metrics.file", c.metrics.file, problems);
  expect_result_file(c, "generate.output", c.generate.output, problems);
  expect_result_file(c, "score.file", c.score.file, problems);
  if (c.debug.dump.empty()) return;
  expect_result_file(c, "debug.dump", c.debug.dump, problems);
  const std::filesystem::path dump = place_of(c.job.output / c.debug.dump);
  const std::filesystem::path metrics = place_of(c.job.output / c.metrics.file);
  problems.expect(dump != metrics, {"debug.dump", "metrics.file"},
                  "found the file of metrics.file, expected another");
  problems.expect(dump == metrics || !(is_at_or_below(dump, metrics) || is_at_or_below(metrics, dump)),
                  {"debug.dump", "metrics.file"},
                  "found a path through metrics.file or to its folder, expected another");
}

}  // namespace

void check_contradictions(JobConfig& config, JobProblems& problems) {
  const JobConfig& c = config;
  const bool trains = is_training(c.job.kind);
  const bool reads_tokens = trains || evaluates_tokens(c.job.kind);
  problems.expect(
      !reads_tokens || !c.data.tokens.empty() || (trains && !c.data.source.empty()),
      {"data.tokens", "job.kind", "data.source"},
      fmt::format(
          "found nothing, expected an HDF5 file with the dataset tokens, because job.kind is \"{}\"{}",
          name_of(c.job.kind), c.data.source.empty() ? "" : "; data.source is for training alone"));
  problems.expect(
      !trains || c.data.tokens.empty() || c.data.source.empty(), {"data.source", "data.tokens"},
      "found together with data.tokens, expected one of them: data.tokens = \"\" trains on the sources, "
      "data.source = [] on that file alone");
  const bool generates = c.job.kind == JobKind::kGenerate;
  const bool answers = generates || (trains && c.generate.every_steps > 0);
  problems.expect(!answers || !c.generate.prompts.empty(),
                  {"generate.prompts", "job.kind", "generate.every_steps"},
                  fmt::format("found nothing, expected a JSONL file of prompts, because {}",
                              generates ? "job.kind is \"generate\"" : "generate.every_steps is not 0"));
  problems.expect(c.evaluate.every_steps == 0 || !trains || !c.evaluate.tokens.empty(),
                  {"evaluate.tokens", "evaluate.every_steps"},
                  "found nothing, expected token files, because evaluate.every_steps is not 0");
  expect_held_out_settings(c, problems);
  problems.expect(reads_tokens || generates || c.model.init == ModelInit::kCheckpoint,
                  {"model.init", "job.kind"},
                  fmt::format("found \"random\", expected \"checkpoint\", because job.kind is \"{}\"",
                              c.job.kind == JobKind::kExport ? "export" : "load"));
  expect_load_settings(c, problems);
  expect_export_settings(c, problems);
  expect_lora_settings(c, problems);
  expect_prefer_settings(config, problems);
  expect_distil_settings(c, problems);
  expect_optimizer_settings(config, problems);
  problems.expect(c.schedule.warmup_steps <= c.train.steps, {"schedule.warmup_steps", "train.steps"},
                  fmt::format("found {}, expected at most train.steps, which is {}", c.schedule.warmup_steps,
                              c.train.steps));
  problems.expect(
      c.train.batch_sequences <= kMaxStepTokens / c.data.sequence_length,
      {"train.batch_sequences", "data.sequence_length"},
      fmt::format("found {} sequences of data.sequence_length = {} tokens, expected at most {} tokens a step",
                  c.train.batch_sequences, c.data.sequence_length, kMaxStepTokens));
  problems.expect(!is_same_place(c.job.output, c.model.path), {"job.output", "model.path"},
                  "found the directory of model.path, expected another");
  expect_result_files(c, problems);
}

}  // namespace sluice
