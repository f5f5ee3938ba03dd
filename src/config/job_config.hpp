// A job file as plain structs, one per TOML table. Member initialisers are the defaults; schema.cpp gives
// every member its key, bounds and help. Values are as written in the file: none depends on the machine or
// the rank.
#pragma once

#include "base/bytes.hpp"
#include "base/dtype.hpp"
#include "base/wire_formats.hpp"
#include "config/choices.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace sluice {

/// Values that stand for a checkpoint's step: the newest complete checkpoint, or the one with the lowest
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
      path;  ///< Hugging Face directory, run directory, directory of checkpoints, or one checkpoint
  std::int64_t step = kNewestStep;  ///< checkpoint to use where path, adapter or lora.start names a run
  DType dtype = DType::kBFloat16;
  FrozenFormat frozen_format = FrozenFormat::kDType;
  ModelInit init = ModelInit::kCheckpoint;
  std::int64_t init_seed = 0;
  /// Directory of the LoRA adapter to compute with, or of the run that trained it; "" = none. Training uses
  /// lora.start.
  std::filesystem::path adapter;
};

/// Table [parallel].
struct ParallelSettings {
  /// Ranks in an expert-parallel group; 0 = all ranks, 1 = experts are gathered.
  std::int64_t expert_parallel = 0;
  std::int64_t replicas = 1;  ///< sets of consecutive ranks, each of which holds the model once
  std::int64_t threads = 0;   ///< compute threads per rank; 0 = cores of the node divided by its ranks
  FrozenWeights frozen = FrozenWeights::kAuto;
  DType reduce = DType::kFloat32;  ///< type in which parts of gradients are sent: float32 or bfloat16
  TokenFormat dispatch = TokenFormat::kDType;
  VocabularySharing vocabulary = VocabularySharing::kAuto;
};

/// Table [load].
struct LoadSettings {
  Readers readers = Readers::kRank0;
  std::int64_t chunk_bytes = 8 * kMiB;
  CachePolicy page_cache = CachePolicy::kAuto;
  bool verify = false;
  LoadSink sink = LoadSink::kShards;
  bool unified_memory = false;
  /// Bytes besides the shard that a rank may take while loading; 0 = no limit.
  std::int64_t memory_limit_bytes = 0;
};

/// A token file of a mixture.
struct SourceSettings {
  std::filesystem::path tokens;
  double weight = 1;
};

/// Table [data].
struct DataSettings {
  std::filesystem::path tokens;        ///< token file; "" if the job reads none, or trains on sources
  std::vector<SourceSettings> source;  ///< mixture of token files to train on; empty: `tokens` is used
  std::int64_t sequence_length = 512;
  std::int64_t seed = 0;
  DataOrder order = DataOrder::kShuffle;
  Answers answer = Answers::kAuto;  ///< answer to learn of rows of JSON that have two
  /// Id of the token that ends each document; -1 = none.
  std::int64_t separator_token = -1;
  bool pack = false;                 ///< whether training sequences hold whole documents
  std::int64_t pack_window = 16384;  ///< number of documents that are packed together
  /// treatment of documents longer than a sequence when packing
  LongDocuments long_documents = LongDocuments::kSplit;
};

/// Value of train.aux_loss_coefficient that stands for the model family's own weight, as does any negative
/// value.
inline constexpr double kAuxLossOfFamily = -1;

/// Table [train].
struct TrainSettings {
  std::int64_t steps = 100;
  std::int64_t batch_sequences = 8;        ///< sequences per step, over all ranks
  std::int64_t micro_batch_sequences = 1;  ///< sequences per pass of one rank
  Recompute recompute = Recompute::kLayer;
  double aux_loss_coefficient = kAuxLossOfFamily;
  BalancingScope aux_loss_scope = BalancingScope::kModel;
  double router_z_loss = 0;            ///< weight of the router z-loss; 0 = no z-loss
  double router_bias_update_rate = 0;  ///< change of correction biases per step; 0 = no change
  std::vector<std::string> freeze{};   ///< patterns of the names of frozen tensors
};

/// LoRA adapters that are trained in place of the weights.
struct LoraSettings {
  std::int64_t rank = 0;  ///< rank of the adapters; 0 = no adapters, unless lora.start names one
  double alpha = 0;       ///< numerator of the scale alpha / rank; 0 = alpha equals the rank
  double dropout = 0;
  std::vector<std::string> targets{"all-linear"};
  bool rslora = false;
  std::int64_t seed = 0;  ///< seed of the initial adapter matrices A and of dropout
  /// Directory of the LoRA adapter to start from, or of the run that trained it; "" = new adapters.
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
  /// Largest L2 norm of the gradients, to which larger ones are clipped; 0 = no clipping.
  double max_grad_norm = 1.0;
  ClipRule clip = ClipRule::kGlobal;
  StateFormat state = StateFormat::kFloat32;
  MasterFormat master = MasterFormat::kFloat32;
  GradientMode gradients = GradientMode::kFloat32;
  /// Former spelling of gradients = kRelease; false once the job file is read.
  bool release_gradients = false;
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
  /// Most bytes of one rank's process; 0 = its share of what the node has left.
  std::int64_t limit_bytes = 0;
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

  std::int64_t every_steps = 0;  ///< steps between two checkpoints; 0 = not by steps
  double every_minutes = 30;     ///< minutes between two checkpoints; 0 = not by time
  std::int64_t keep = 2;         ///< number of newest checkpoints to keep
  std::int64_t keep_every = 0;   ///< interval in steps: checkpoints of its multiples are kept too; 0 = none
  std::filesystem::path path;    ///< directory of the checkpoints; "" = "checkpoints" in the run directory
  std::int64_t resume = kResumeNewest;  ///< step of the checkpoint to resume from, or one of the values above
  SaveStorage storage = SaveStorage::kAuto;
  /// Copies of each rank's file on other hosts, if hosts share no file system.
  std::int64_t partner_copies = 1;
  SaveFailure on_failure = SaveFailure::kContinue;
  /// Seconds between the last save and the end of a Slurm allocation; 0 = Slurm is not asked for the end.
  double margin_seconds = 60;

  [[nodiscard]] bool saves() const { return every_steps > 0 || every_minutes > 0; }
};

/// Table [prefer].
struct PreferSettings {
  PreferenceLoss loss = PreferenceLoss::kSigmoid;
  double beta = 0.1;              ///< factor of log-probabilities relative to the reference
  double label_smoothing = 0;     ///< probability that a preference is the wrong way round
  double sft_weight = 0;          ///< weight of the cross-entropy of chosen answers
  ReferenceSettings reference{};  ///< model to compare with

  /// Whether the loss compares the model with a reference.
  [[nodiscard]] bool has_reference() const { return loss != PreferenceLoss::kOrpo; }
  /// Whether tokens pass through the reference beside the model.
  [[nodiscard]] bool walks_reference() const { return refers_to(PreferenceReference::kBase); }
  /// Whether the loss compares the model with a reference of this kind.
  [[nodiscard]] bool refers_to(PreferenceReference kind) const {
    return has_reference() && reference.kind == kind;
  }
  /// Whether the loss has the cross-entropy of chosen documents, prompts included.
  [[nodiscard]] bool learns_chosen_documents() const { return loss == PreferenceLoss::kOrpo; }
};

/// Table [evaluate].
struct EvaluateSettings {
  std::vector<std::filesystem::path> tokens;  ///< token files with held-out tokens
  std::int64_t every_steps = 0;               ///< training steps between two evaluations; 0 = no evaluations
  /// evaluations in a row without a lower held-out loss after which training ends; 0 = no limit
  std::int64_t patience = 0;
};

/// Reactions to NaN, infinities, loss spikes and differences between ranks.
struct GuardSettings {
  OnNonFinite on_nonfinite = OnNonFinite::kStop;
  OnSpike on_spike = OnSpike::kWarn;
  /// Ratio of a loss to the median of the losses before it, above which it is a spike.
  double spike_factor = 3;
  std::int64_t spike_window = 32;          ///< number of last losses in that median
  std::int64_t max_skipped_steps = 10;     ///< most updates in a row that may be skipped or rewound
  std::int64_t compare_ranks_every = 100;  ///< steps between two comparisons of the ranks; 0 = never
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
  /// training steps between two rounds of answers; 0 = no answers while training
  std::int64_t every_steps = 0;
  std::int64_t max_tokens = 256;            ///< most tokens of an answer
  std::int64_t max_sequence_length = 2048;  ///< most tokens of a prompt and its answer together
  std::int64_t batch_sequences = 8;         ///< number of prompts answered at once, over all ranks
  std::int64_t prefill_tokens = 512;        ///< most prompt tokens per forward pass of a rank
  AnswerProducts products = AnswerProducts::kExact;
  double temperature = 0;
  std::int64_t top_k = 0;
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
  std::int64_t seed = 0;
  std::vector<std::string> stop{};  ///< texts that end an answer; no empty ones
  bool chat = false;
  bool ignore_eos = false;
};

/// Table [score].
struct ScoreSettings {
  std::filesystem::path file = "scores.h5";  ///< file of scores, relative to the run directory
  bool tokens = false;                       ///< whether the log-probability of each token is kept
  ScoreDistribution distribution = ScoreDistribution::kNone;
  std::int64_t samples = 16;  ///< tokens drawn at each target, with kSampled
  std::int64_t top = 32;      ///< tokens kept of each target, with kTop
  double temperature = 1;     ///< divisor of the logits before the distribution is made
  std::int64_t seed = 0;      ///< seed of the draws

  /// Number of tokens kept of each target's distribution; 0: none is kept.
  [[nodiscard]] std::int64_t distribution_tokens() const {
    if (distribution == ScoreDistribution::kNone) return 0;
    return distribution == ScoreDistribution::kSampled ? samples : top;
  }
};

/// Table [distil].
struct DistilSettings {
  /// Files of scores with a distribution, made by a teacher; empty: the data's own tokens are learnt.
  std::vector<std::filesystem::path> teacher;
  double weight = 0.5;     ///< weight of the teacher's distributions in the loss
  double temperature = 0;  ///< temperature of both distributions; 0 = that of the teacher's file
  DistilLoss loss = DistilLoss::kForwardKl;

  [[nodiscard]] bool learns() const { return !teacher.empty(); }
};

/// Table [metrics].
struct MetricsSettings {
  std::filesystem::path file = "metrics.h5";  ///< metrics file, relative to the run directory
  std::int64_t log_every = 1;                 ///< steps between two printed lines of metrics
};

/// Table [trace].
struct TraceSettings {
  StepRange steps;
};

/// Table [debug].
struct DebugSettings {
  std::filesystem::path dump;  ///< file for dumps, relative to the run directory; "" = no dumps
};

/// Limits in seconds: a rank that waits longer for other ranks fails.
struct DeadlineSettings {
  double setup_seconds = 600;
  double load_seconds = 900;
  double step_seconds = 120;
  double evaluate_seconds = 600;
  double save_seconds = 600;
  double finish_seconds = 60;
};

/// All settings of a job; made by load_job_config() or parse_job_config(), and passed on as const.
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
  PreferSettings prefer;
  GenerateSettings generate;
  ScoreSettings score;
  DistilSettings distil;
  MetricsSettings metrics;
  TraceSettings trace;
  DebugSettings debug;
  DeadlineSettings deadline;

  /// Names of the environment's variables that the values had, HOME for "~". No setting: which values they are
  /// spelled by.
  std::set<std::string> variables;
};

/// Reads a job file of at most 1 MiB and applies overrides "table.key=value" in order; a value that is not
/// TOML is taken as a bare string. Throws one Error that lists every problem, a line each: kUsage for an
/// override of another form, else kBadConfig.
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

/// Every key with its value in canonical spelling, in schema order: the entries that ranks compare. A list of
/// tables gives an entry for each of its keys, with the values of all tables: data.source.weight.
[[nodiscard]] std::vector<ConfigEntry> canonical_entries(const JobConfig& config);

/// The resolved job file: every key with its value. Parses back to the same job.
[[nodiscard]] std::string to_toml(const JobConfig& config);

/// Every key with its unit, default, allowed values and help, in lines of `width` columns at most.
[[nodiscard]] std::string describe_schema(std::size_t width);

/// The reference of all keys as Markdown, one table per TOML table.
[[nodiscard]] std::string schema_markdown();

}  // namespace sluice
