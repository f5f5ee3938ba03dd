// A job file as plain structs, one per TOML table. Member initialisers are the defaults; schema.cpp gives
// every member its key, bounds and help. Values are as written: nothing here depends on the machine or the
// rank.
#pragma once

#include "base/bytes.hpp"
#include "base/dtype.hpp"
#include "config/choices.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// What stands for the number of a saved step: the newest one that is whole, or the one with the lowest held-out loss.
inline constexpr std::int64_t kNewestStep = -1, kBestStep = -3;

struct JobSettings {
  JobKind kind = JobKind::kTrain;
  std::filesystem::path output;  ///< run directory
  bool overwrite = false;
};

struct ModelSettings {
  std::filesystem::path path;       ///< Hugging Face directory, a run's, one of saved steps, or a saved step
  std::int64_t step = kNewestStep;  ///< that is meant where path, adapter or lora.start names a run
  DType dtype = DType::kBFloat16;
  ModelInit init = ModelInit::kCheckpoint;
  std::int64_t init_seed = 0;
  std::filesystem::path
      adapter;  ///< directory of an adapter, or a run that trained one, to compute with; "" = none. Training has lora.start
};

struct ParallelSettings {
  std::int64_t expert_parallel = 0;  ///< 0 = all ranks, 1 = gathered, k = groups of k ranks
  std::int64_t threads = 0;          ///< per rank; 0 = cores of the node divided by its ranks
};

struct LoadSettings {
  Readers readers = Readers::kRank0;
  std::int64_t chunk_bytes = 8 * kMiB;
  CachePolicy page_cache = CachePolicy::kAuto;
  bool verify = false;
  LoadSink sink = LoadSink::kShards;
  bool unified_memory = false;
  std::int64_t memory_limit_bytes = 0;  ///< growth above the shard allowed while loading; 0 = no limit
};

/// A token file of a mixture.
struct SourceSettings {
  std::filesystem::path tokens;
  double weight = 1;
};

struct DataSettings {
  std::filesystem::path tokens;        ///< "" unless the job trains or evaluates, or trains on sources
  std::vector<SourceSettings> source;  ///< of a training
  std::int64_t sequence_length = 512;
  std::int64_t seed = 0;
  DataOrder order = DataOrder::kShuffle;
  std::int64_t separator_token = -1;                     ///< the last token of each document; -1 = none
  bool pack = false;                                     ///< documents into sequences, in a training
  std::int64_t pack_window = 16384;                      ///< documents that are packed together
  LongDocuments long_documents = LongDocuments::kSplit;  ///< of packed ones
};

/// Of train.aux_loss_coefficient, as all numbers below 0: as the model's family is trained.
inline constexpr double kAuxLossOfFamily = -1;

struct TrainSettings {
  std::int64_t steps = 100;
  std::int64_t batch_sequences = 8;        ///< over all ranks
  std::int64_t micro_batch_sequences = 1;  ///< per rank
  Recompute recompute = Recompute::kLayer;
  double aux_loss_coefficient = kAuxLossOfFamily;
  BalancingScope aux_loss_scope = BalancingScope::kModel;
  double router_z_loss = 0;         ///< weight of the z-loss of the routers' logits; 0: no z-loss
  double router_bias_update = 0;    ///< of correction biases, after each step; 0: they stay
  std::vector<std::string> freeze;  ///< patterns of tensor names
};

/// Low-rank adapters that are trained in place of the weights.
struct LoraSettings {
  std::int64_t rank = 0;  ///< 0 = none, unless there is a start
  double alpha = 0;       ///< 0 = the rank
  double dropout = 0;
  std::vector<std::string> targets{"all-linear"};
  bool rslora = false;
  std::int64_t seed = 0;  ///< of A, and of dropout
  std::filesystem::path
      start;  ///< directory of an adapter, or a run that trained one, to begin with; "" = from zero

  bool operator==(const LoraSettings&) const = default;
  [[nodiscard]] bool trains() const { return rank > 0 || !start.empty(); }
};

struct OptimizerSettings {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double learning_rate = 1e-4;
  std::array<double, 2> betas{0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.1;
  double max_grad_norm = 1.0;  ///< 0 = no clipping
  ClipRule clip = ClipRule::kGlobal;
  StateFormat state = StateFormat::kFloat32;
  MasterFormat master = MasterFormat::kFloat32;
  GradientMode gradients = GradientMode::kFloat32;
  bool release_gradients = false;  ///< as read; false in a JobConfig that is done, gradients says it then
  OptimizerFit fit = OptimizerFit::kAsWritten;
  std::int64_t seed = 0;

  [[nodiscard]] OptimizerMode mode() const { return {kind, state, master, gradients, clip}; }
};

struct MemorySettings {
  std::int64_t limit_bytes = 0;  ///< of one rank's whole process; 0 = its share of what the node has left
  Offload offload = Offload::kNone;
  std::filesystem::path offload_path;  ///< "" = job.output
};

struct DeviceSettings {
  DeviceKind kind = DeviceKind::kAuto;
};

struct ScheduleSettings {
  ScheduleKind kind = ScheduleKind::kConstant;
  std::int64_t warmup_steps = 0;
  double final_factor = 0.0;  ///< learning rate of the last step, as a factor of optimizer.learning_rate
};

struct CheckpointSettings {
  static constexpr std::int64_t kResumeNewest = kNewestStep, kResumeNever = -2, kResumeBest = kBestStep;

  std::int64_t every_steps = 0;         ///< 0 = never
  double every_minutes = 30;            ///< 0 = never
  std::int64_t keep = 2;                ///< saved steps, the newest ones
  std::int64_t keep_every = 0;          ///< besides those whose number it divides; 0 = none
  std::filesystem::path path;           ///< "" = "checkpoints" in the run directory
  std::int64_t resume = kResumeNewest;  ///< or a step
  SaveStorage storage = SaveStorage::kAuto;
  /// Copies of each rank's file on other hosts, where no file system is shared.
  std::int64_t partner_copies = 1;
  SaveFailure on_failure = SaveFailure::kContinue;
  double margin_seconds =
      60;  ///< between a last save and the end of a Slurm allocation; 0 = its end is not asked for

  [[nodiscard]] bool saves() const { return every_steps > 0 || every_minutes > 0; }
};

struct EvaluateSettings {
  std::vector<std::filesystem::path> tokens;  ///< held out from the training
  std::int64_t every_steps = 0;               ///< of a training; 0 = never
  std::int64_t patience = 0;  ///< evaluations in a row without a lower loss that end a training; 0 = none
};

/// What is done about numbers that have gone wrong.
struct GuardSettings {
  OnNonFinite on_nonfinite = OnNonFinite::kStop;
  OnSpike on_spike = OnSpike::kWarn;
  double spike_factor = 3;           ///< of the median of the losses before
  std::int64_t spike_window = 32;    ///< steps of that median
  std::int64_t most_left_out = 10;   ///< steps in a row
  std::int64_t compare_every = 100;  ///< steps; 0 = never
};

struct ExportSettings {
  std::filesystem::path path;
  ExportAtEnd at_end = ExportAtEnd::kNo;
  std::int64_t max_shard_bytes = 5'000'000'000;
  ExportExperts experts = ExportExperts::kSource;
  ExportAdapters adapters = ExportAdapters::kKeep;

  [[nodiscard]] bool ends_with_export() const { return at_end != ExportAtEnd::kNo; }
};

struct GenerateSettings {
  std::filesystem::path prompts;                   ///< "" unless the job answers prompts
  std::filesystem::path output = "answers.jsonl";  ///< relative to the run directory
  std::int64_t every_steps = 0;                    ///< of a training; 0 = never
  std::int64_t max_tokens = 256;                   ///< of an answer
  std::int64_t positions = 2048;                   ///< of prompt and answer together
  std::int64_t sequences = 8;                      ///< answered at once, over all ranks
  std::int64_t pass_tokens = 512;                  ///< of a rank
  double temperature = 0;
  std::int64_t top_k = 0;
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
  std::int64_t seed = 0;
  std::vector<std::string> stop{};  ///< none of them is empty
  bool chat = false;
  bool ignore_eos = false;
};

struct MetricsSettings {
  std::filesystem::path file = "metrics.h5";  ///< relative to the run directory
  std::int64_t log_every = 1;                 ///< steps between two printed ones
};

struct TraceSettings {
  StepRange steps;
};

struct DebugSettings {
  std::filesystem::path dump;  ///< relative to the run directory; "" = none
};

/// Seconds after which waiting for the other ranks is an error.
struct DeadlineSettings {
  double setup_seconds = 600;
  double load_seconds = 900;
  double step_seconds = 120;
  double evaluate_seconds = 600;
  double save_seconds = 600;
  double finish_seconds = 60;
};

/// Made by load_job_config() or parse_job_config() and passed on as const.
struct JobConfig {
  JobSettings job;
  ModelSettings model;
  ParallelSettings parallel;
  LoadSettings load;
  DataSettings data;
  TrainSettings train;
  LoraSettings lora;
  OptimizerSettings optimizer;
  MemorySettings memory;
  DeviceSettings device;
  ScheduleSettings schedule;
  CheckpointSettings checkpoint;
  EvaluateSettings evaluate;
  GuardSettings guard;
  ExportSettings export_;
  GenerateSettings generate;
  MetricsSettings metrics;
  TraceSettings trace;
  DebugSettings debug;
  DeadlineSettings deadline;
};

/// Reads a job file of at most 1 MiB and applies overrides "table.key=value" in order; a value that is no
/// TOML is taken as a bare string. Throws one Error that lists every problem, a line each: kUsage for an
/// override that is not of that form, else kBadConfig.
[[nodiscard]] JobConfig load_job_config(const std::filesystem::path& file,
                                        std::span<const std::string> overrides = {});

/// The same for a text; `file_name` only names it in messages.
[[nodiscard]] JobConfig parse_job_config(std::string_view text, const std::string& file_name,
                                         std::span<const std::string> overrides = {});

struct ConfigEntry {
  std::string key;    ///< "load.chunk"
  std::string value;  ///< as TOML: "\"8MiB\""
  bool operator==(const ConfigEntry&) const = default;
};

/// Every key with its value in one spelling, in schema order: what ranks compare. A list of tables gives an entry for each of
/// their keys, with the values of all: data.source.weight.
[[nodiscard]] std::vector<ConfigEntry> canonical_entries(const JobConfig& config);

/// The resolved job file: every key with its value. Parses back to the same job.
[[nodiscard]] std::string to_toml(const JobConfig& config);

/// Every key with its unit, default, allowed values and help, in lines of `width` columns at most.
[[nodiscard]] std::string describe_schema(std::size_t width);

/// The same as Markdown, one table per TOML table.
[[nodiscard]] std::string schema_markdown();

}  // namespace sluice
