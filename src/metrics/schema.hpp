// Schema of metrics.h5: one table of columns, each with its path, units, meaning, and the value that a step
// gives it. FORMAT.md says how the file behaves.
#pragma once

#include "base/dtype.hpp"

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <variant>
#include <vector>

namespace sluice {

/// Facts that are known before the first step.
struct MetricsHeader {
  std::string job_toml{};        ///< text of the resolved job
  std::string structure_hash{};  ///< structure hash of the model's manifest
  int world_size = 1;
  /// Whether the job uses GPUs; otherwise there is no /memory/device_peak_bytes.
  bool has_gpus = false;
  std::int64_t expected_rows = 0;     ///< most steps that will be appended; sizes the HDF5 chunks
  std::vector<std::string> phases{};  ///< names below /train/phase_seconds
  std::int64_t moe_layers = 0;        ///< number of MoE layers; 0: no /moe
  std::int64_t experts = 0;
  std::int64_t documents = 0;       ///< number of documents that will be evaluated; 0: no /evaluate
  std::int64_t held_out_files = 0;  ///< number of files evaluated while training; 0: no /train/held_out_loss
  bool prefers = false;             ///< whether the job learns preferences; otherwise no /rewards and /logps
  bool distils = false;             ///< whether the job learns from a teacher; otherwise no /train/own_loss
  std::int64_t sources = 0;         ///< number of token files to train on; 0: no /train/epochs
  std::int64_t samples = 0;         ///< most answers while training; 0: no /samples
  std::int64_t sample_tokens = 0;   ///< most tokens of one sample
};

/// Preferences between the pairs of a step, means over the pairs; NaN where the step has none.
struct PreferenceRow {
  double chosen_reward = std::numeric_limits<double>::quiet_NaN();
  double rejected_reward = chosen_reward;
  double margin = chosen_reward;
  double accuracy = chosen_reward;
  double chosen_log_prob = chosen_reward;
  double rejected_log_prob = chosen_reward;
};

/// The parts of the loss of a step that learns from a teacher; NaN where a step has none.
struct DistilRow {
  double own_loss = std::numeric_limits<double>::quiet_NaN();
  double teacher_loss = own_loss;
  double teacher_entropy = own_loss;
};

/// Row of one step.
struct TrainRow {
  std::int64_t step = 0;
  double loss = 0;
  double grad_norm = 0;
  double learning_rate = 0;
  std::int64_t tokens = 0;
  double filled = 1;
  double step_seconds = 0;
  double tokens_per_second = 0;
  double model_flops_per_second = 0;
  double mfu = 0;
  std::int64_t communicated_bytes = 0;
  std::vector<double> phase_seconds;  ///< seconds of each phase, in the order of MetricsHeader::phases
  /// Tokens (times k) of each expert, [MoE layers, experts]; empty without MoE layers.
  std::vector<std::int64_t> expert_tokens;
  double aux_loss = 0;
  /// Z-loss of the routers; NaN if the job has none.
  double z_loss = std::numeric_limits<double>::quiet_NaN();
  /// Held-out loss of each file, in nats; NaN in steps without an evaluation.
  std::vector<double> held_out_loss{};
  std::vector<double> epochs{};  ///< epochs of each source
  PreferenceRow preferences{};
  DistilRow distil{};
  std::int64_t left_out = 0;                ///< whether the update was skipped: 1 or 0
  std::vector<std::int64_t> peak_bytes;     ///< peak bytes of each rank
  std::vector<std::int64_t> planned_bytes;  ///< planned bytes of each rank
  /// Highest growth of each rank over its baseline, bytes.
  std::vector<std::int64_t> peak_growth_bytes;
  /// Peak bytes of each rank's GPU; empty without GPUs.
  std::vector<std::int64_t> device_peak_bytes{};
};

/// Cost of loading; every vector has a number per rank.
struct LoadTable {
  std::vector<std::int64_t> bytes_received;
  std::vector<std::int64_t> shard_bytes;
  std::vector<std::int64_t> peak_staging_bytes;
  std::vector<std::int64_t> peak_growth_bytes;
  std::vector<double> seconds;
};

/// Values of a column in one row, row-major.
using MetricValues = std::variant<std::vector<std::int64_t>, std::vector<double>>;

/// Sums over predicted tokens, of one document or of all.
struct EvaluationRow {
  std::int64_t tokens = 0;
  double loss = 0;        ///< mean loss in nats; NaN without tokens
  double perplexity = 0;  ///< perplexity; NaN without tokens
};

/// Answer to a prompt by a model that is being trained.
struct SampleRow {
  std::int64_t step = 0;
  std::int64_t prompt = 0;             ///< index of the prompt
  std::vector<std::int64_t> tokens{};  ///< token ids of the answer
};

/// A column: a dataset [n, row_shape...].
struct Column {
  std::string path;
  DType dtype;
  std::string units;
  std::string description;
  std::vector<std::int64_t> row_shape{};
};

/// A column with the function that gives its value from a source.
template <class Row>
struct ColumnOf {
  Column column;
  std::function<MetricValues(const Row&)> values;
};
using StepColumn = ColumnOf<TrainRow>;
using LoadColumn = ColumnOf<LoadTable>;  ///< a dataset [ranks] that is no table of rows
using EvaluationColumn = ColumnOf<EvaluationRow>;
using SampleColumn = ColumnOf<SampleRow>;

/// Former name of a dataset, which is reached by both names.
struct FormerName {
  std::string path;
  std::string target;
};
[[nodiscard]] std::vector<FormerName> former_names();
[[nodiscard]] bool is_former_name(const std::string& path);

/// All columns of a run with this header. /train/step is the last one: its length is the number of complete
/// rows.
[[nodiscard]] std::vector<StepColumn> step_columns(const MetricsHeader& header);
[[nodiscard]] std::vector<LoadColumn> load_columns();
/// Columns with one value per document, [documents].
[[nodiscard]] std::vector<EvaluationColumn> document_columns();
/// Columns with one value for all documents together, [1], named "total_...".
[[nodiscard]] std::vector<EvaluationColumn> total_columns();
/// Columns for samples of at most `tokens` tokens. /samples/step is the last one.
[[nodiscard]] std::vector<SampleColumn> sample_columns(std::int64_t tokens);

}  // namespace sluice
