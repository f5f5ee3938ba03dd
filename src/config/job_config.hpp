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
#include <tuple>
#include <vector>

namespace sluice {

/// Values that stand for the step of a checkpoint: the newest complete one, or the one with the lowest
/// held-out loss.
inline constexpr std::int64_t kNewestStep = -1, kBestStep = -3;

/// Table [job].
struct JobSettings {
  JobKind kind = JobKind::kTrain;
  std::filesystem::path output;  ///< the run directory
  bool overwrite = false;
};

/// Table [model].
struct ModelSettings {
  std::filesystem::path
      path;  ///< Hugging Face directory, run directory, directory of checkpoints, or checkpoint
  std::int64_t step = kNewestStep;  ///< checkpoint to take where path, adapter or lora.start names a run
  DType dtype = DType::kBFloat16;
  FrozenFormat frozen_format = FrozenFormat::kDType;
  ModelInit init = ModelInit::kCheckpoint;
  std::int64_t init_seed = 0;
  /// Directory of the adapter to compute with, or of the run that trained it; "" = none. Training has
  /// lora.start.
  std::filesystem::path adapter;
};

/// Table [parallel].
struct ParallelSettings {
  std::int64_t expert_parallel = 0;  ///< ranks of an expert-parallel group; 0 = all, 1 = experts are gathered
  std::int64_t threads = 0;          ///< compute threads per rank; 0 = cores of the node divided by its ranks
};

/// Table [load].
struct LoadSettings {
  Readers readers = Readers::kRank0;
  std::int64_t chunk_bytes = 8 * kMiB;
  CachePolicy page_cache = CachePolicy::kAuto;
  bool verify = false;
  LoadSink sink = LoadSink::kShards;
  bool unified_memory = false;
  std::int64_t memory_limit_bytes = 0;  ///< memory beyond the shard while loading; 0 = no limit
};

/// A token file of a mixture.
struct SourceSettings {
  std::filesystem::path tokens;
  double weight = 1;
};

/// Table [data].
struct DataSettings {
  std::filesystem::path tokens;        ///< token file; "" if the job reads none, or trains on sources
  std::vector<SourceSettings> source;  ///< mixture of token files of a training
  std::int64_t sequence_length = 512;
  std::int64_t seed = 0;
  DataOrder order = DataOrder::kShuffle;
  std::int64_t separator_token = -1;                     ///< id of the last token of each document; -1 = none
  bool pack = false;                                     ///< whether training sequences hold whole documents
  std::int64_t pack_window = 16384;                      ///< documents that are packed together
  LongDocuments long_documents = LongDocuments::kSplit;  ///< treatment when packing
};

/// Value of train.aux_loss_coefficient (as any below 0) that stands for the weight used by the model's
/// family.
inline constexpr double kAuxLossOfFamily = -1;

/// Table [train].
struct TrainSettings {
  std::int64_t steps = 100;
  std::int64_t batch_sequences = 8;        ///< sequences per step over all ranks
  std::int64_t micro_batch_sequences = 1;  ///< sequences per pass of a rank
  Recompute recompute = Recompute::kLayer;
  double aux_loss_coefficient = kAuxLossOfFamily;
  BalancingScope aux_loss_scope = BalancingScope::kModel;
  double router_z_loss = 0;            ///< weight of the router z-loss; 0 = none
  double router_bias_update_rate = 0;  ///< change of correction biases per step; 0 = none
  std::vector<std::string> freeze{};   ///< patterns of the names of frozen tensors
};

/// LoRA adapters that are trained in place of the weights.
struct LoraSettings {
  std::int64_t rank = 0;  ///< rank of the adapters; 0 = none, unless there is a start
  double alpha = 0;       ///< numerator of the scale alpha / rank; 0 = the rank
  double dropout = 0;
  std::vector<std::string> targets{"all-linear"};
  bool rslora = false;
  std::int64_t seed = 0;  ///< seed of the initial A and of dropout
  /// Directory of the adapter to start from, or of the run that trained it; "" = new adapters.
  std::filesystem::path start;

  bool operator==(const LoraSettings&) const = default;
  [[nodiscard]] bool trains() const { return rank > 0 || !start.empty(); }
};

/// Table [optimizer].
struct OptimizerSettings {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double learning_rate = 1e-4;
  std::array<double, 2> betas{0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.1;
  double max_grad_norm = 1.0;  ///< L2 norm to which larger gradients are clipped; 0 = no clipping
  ClipRule clip = ClipRule::kGlobal;
  StateFormat state = StateFormat::kFloat32;
  MasterFormat master = MasterFormat::kFloat32;
  GradientMode gradients = GradientMode::kFloat32;
  bool release_gradients = false;  ///< earlier name of gradients = kRelease; false once the job file is read
  OptimizerFit fit = OptimizerFit::kAsWritten;
  std::int64_t seed = 0;

  [[nodiscard]] OptimizerMode mode() const { return {kind, state, master, gradients, clip}; }
  void set_mode(const OptimizerMode& mode) {
    std::tie(kind, state, master, gradients, clip) =
        std::tie(mode.kind, mode.state, mode.master, mode.gradients, mode.clip);
  }
};

/// Table [memory].
struct MemorySettings {
  std::int64_t limit_bytes = 0;  ///< bytes of one rank's process; 0 = its share of what the node has left
  Offload offload = Offload::kNone;
  std::filesystem::path offload_path;  ///< directory of offload files; "" = job.output
};

/// Table [device].
struct DeviceSettings {
  DeviceKind kind = DeviceKind::kAuto;
};

/// Table [schedule].
struct ScheduleSettings {
  ScheduleKind kind = ScheduleKind::kConstant;
  std::int64_t warmup_steps = 0;
  double final_factor = 0.0;  ///< learning rate of the last step divided by optimizer.learning_rate
};

/// Table [checkpoint].
struct CheckpointSettings {
  static constexpr std::int64_t kResumeNewest = kNewestStep, kResumeNever = -2, kResumeBest = kBestStep;

  std::int64_t every_steps = 0;  ///< steps between checkpoints; 0 = not by steps
  double every_minutes = 30;     ///< minutes between checkpoints; 0 = not by time
  std::int64_t keep = 2;         ///< newest checkpoints that are kept
  std::int64_t keep_every = 0;   ///< checkpoints of multiples of this step are kept too; 0 = none
  std::filesystem::path path;    ///< directory of the checkpoints; "" = "checkpoints" in the run directory
  std::int64_t resume = kResumeNewest;  ///< step of the checkpoint to resume from, or one of the above
  SaveStorage storage = SaveStorage::kAuto;
  /// Copies of each rank's file on other hosts, where no file system is shared.
  std::int64_t partner_copies = 1;
  SaveFailure on_failure = SaveFailure::kContinue;
  /// Seconds between a last save and the end of a Slurm allocation; 0 = Slurm is not asked for its end.
  double margin_seconds = 60;

  [[nodiscard]] bool saves() const { return every_steps > 0 || every_minutes > 0; }
};

/// Table [evaluate].
struct EvaluateSettings {
  std::vector<std::filesystem::path> tokens;  ///< held-out token files
  std::int64_t every_steps = 0;               ///< training steps between evaluations; 0 = none
  std::int64_t patience = 0;  ///< evaluations in a row without a lower loss that end a training; 0 = no limit
};

/// Reactions to NaN, infinities, loss spikes and differences between ranks.
struct GuardSettings {
  OnNonFinite on_nonfinite = OnNonFinite::kStop;
  OnSpike on_spike = OnSpike::kWarn;
  double spike_factor = 3;                 ///< ratio of a spike to the median of the losses before
  std::int64_t spike_window = 32;          ///< steps whose losses make that median
  std::int64_t max_skipped_steps = 10;     ///< updates in a row that may be skipped or rewound
  std::int64_t compare_ranks_every = 100;  ///< steps between comparisons of the ranks; 0 = never
};

/// Table [export].
struct ExportSettings {
  std::filesystem::path path;
  ExportAtEnd at_end = ExportAtEnd::kNo;
  std::int64_t max_shard_bytes = 5'000'000'000;
  ExportFormat format = ExportFormat::kPlain;
  ExportExperts experts = ExportExperts::kSource;
  ExportAdapters adapters = ExportAdapters::kKeep;

  [[nodiscard]] bool ends_with_export() const { return at_end != ExportAtEnd::kNo; }
};

/// Table [generate].
struct GenerateSettings {
  std::filesystem::path prompts{};                 ///< file of prompts; "" unless the job answers prompts
  std::filesystem::path output = "answers.jsonl";  ///< file of answers, relative to the run directory
  std::int64_t every_steps = 0;                    ///< training steps between rounds of answers; 0 = none
  std::int64_t max_tokens = 256;                   ///< tokens of an answer, at most
  std::int64_t max_sequence_length = 2048;         ///< tokens of prompt and answer together, at most
  std::int64_t batch_sequences = 8;                ///< prompts answered at once, over all ranks
  std::int64_t prefill_tokens = 512;               ///< prompt tokens per forward pass of a rank, at most
  double temperature = 0;
  std::int64_t top_k = 0;
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
  std::int64_t seed = 0;
  std::vector<std::string> stop{};  ///< texts that end an answer; none is empty
  bool chat = false;
  bool ignore_eos = false;
};

/// Table [metrics].
struct MetricsSettings {
  std::filesystem::path file = "metrics.h5";  ///< metrics file, relative to the run directory
  std::int64_t log_every = 1;                 ///< steps between two printed lines
};

/// Table [trace].
struct TraceSettings {
  StepRange steps;
};

/// Table [debug].
struct DebugSettings {
  std::filesystem::path dump;  ///< dump file, relative to the run directory; "" = none
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

/// Parses the text of a job file as load_job_config() does; `file_name` only names it in messages.
[[nodiscard]] JobConfig parse_job_config(std::string_view text, const std::string& file_name,
                                         std::span<const std::string> overrides = {});

/// A key with its value.
struct ConfigEntry {
  std::string key;    ///< table and key: "load.chunk"
  std::string value;  ///< TOML spelling: "\"8MiB\""
  bool operator==(const ConfigEntry&) const = default;
};

/// Every key with its value in one spelling, in schema order: what ranks compare. A list of tables gives an
/// entry for each of their keys, with the values of all: data.source.weight.
[[nodiscard]] std::vector<ConfigEntry> canonical_entries(const JobConfig& config);

/// The resolved job file: every key with its value. Parses back to the same job.
[[nodiscard]] std::string to_toml(const JobConfig& config);

/// Every key with its unit, default, allowed values and help, in lines of `width` columns at most.
[[nodiscard]] std::string describe_schema(std::size_t width);

/// The reference of all keys as Markdown, one table per TOML table.
[[nodiscard]] std::string schema_markdown();

}  // namespace sluice
