// Schema of metrics.h5: one table of columns, each with its path, units, meaning and the value a step gives
// it. FORMAT.md says how the file behaves.
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
  std::string job_toml{};        ///< the resolved job
  std::string structure_hash{};  ///< structure hash of the model's manifest
  int world_size = 1;
  bool has_gpus = false;              ///< false: no /memory/device_peak_bytes
  std::int64_t expected_rows = 0;     ///< steps that will be appended, at most; sizes the HDF5 chunks
  std::vector<std::string> phases{};  ///< names below /train/phase_seconds
  std::int64_t moe_layers = 0;        ///< 0: no /moe
  std::int64_t experts = 0;
  std::int64_t documents = 0;       ///< documents that will be evaluated; 0: no /evaluate
  std::int64_t held_out_files = 0;  ///< evaluated while training; 0: no /train/held_out_loss
  std::int64_t sources = 0;         ///< token files that are trained on; 0: no /train/epochs
  std::int64_t samples = 0;         ///< answers while training, at most; 0: no /samples
  std::int64_t sample_tokens = 0;   ///< tokens of one sample, at most
};

/// One step.
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
  std::vector<double> phase_seconds;        ///< seconds of each phase, in the order of MetricsHeader::phases
  std::vector<std::int64_t> expert_tokens;  ///< [moe layers, experts]; empty without MoE layers
  double aux_loss = 0;
  double z_loss = std::numeric_limits<double>::quiet_NaN();  ///< NaN where the job has none
  std::vector<double> held_out_loss{};                       ///< [files]; NaN in steps without an evaluation
  std::vector<double> epochs{};                              ///< [sources]
  std::int64_t left_out = 0;                                 ///< 1: no update was made
  std::vector<std::int64_t> peak_bytes;                      ///< [ranks]
  std::vector<std::int64_t> planned_bytes;                   ///< [ranks]
  std::vector<std::int64_t> peak_growth_bytes;               ///< [ranks]
  std::vector<std::int64_t> device_peak_bytes{};             ///< [ranks]; empty without GPUs
};

/// Cost of loading; every vector is [ranks].
struct LoadTable {
  std::vector<std::int64_t> bytes_received;
  std::vector<std::int64_t> shard_bytes;
  std::vector<std::int64_t> peak_staging_bytes;
  std::vector<std::int64_t> peak_growth_bytes;
  std::vector<double> seconds;
};

/// One row of a column, row-major.
using MetricValues = std::variant<std::vector<std::int64_t>, std::vector<double>>;

/// Sums over tokens that were predicted: of one document, or of all.
struct EvaluationRow {
  std::int64_t tokens = 0;
  double loss = 0;        ///< NaN without tokens
  double perplexity = 0;  ///< NaN without tokens
};

/// Answer to a prompt by a model that is being trained.
struct SampleRow {
  std::int64_t step = 0;
  std::int64_t prompt = 0;             ///< index of the prompt
  std::vector<std::int64_t> tokens{};  ///< token ids of the answer
};

/// A dataset [n, row_shape...].
struct Column {
  std::string path;
  DType dtype;
  std::string units;
  std::string description;
  std::vector<std::int64_t> row_shape{};
};

/// A column and the value that a source gives it.
template <class Row>
struct ColumnOf {
  Column column;
  std::function<MetricValues(const Row&)> values;
};
using StepColumn = ColumnOf<TrainRow>;
using LoadColumn = ColumnOf<LoadTable>;  ///< a dataset [ranks] that is no table of rows
using EvaluationColumn = ColumnOf<EvaluationRow>;
using SampleColumn = ColumnOf<SampleRow>;

/// A dataset that an earlier version called otherwise, and is reached by both names.
struct FormerName {
  std::string path;
  std::string target;
};
[[nodiscard]] std::vector<FormerName> former_names();
[[nodiscard]] bool is_former_name(const std::string& path);

/// All columns of such a run. /train/step is the last: its length is the number of complete rows.
[[nodiscard]] std::vector<StepColumn> step_columns(const MetricsHeader& header);
[[nodiscard]] std::vector<LoadColumn> load_columns();
/// Columns for each document [documents].
[[nodiscard]] std::vector<EvaluationColumn> document_columns();
/// Columns for all documents together [1], named "total_...".
[[nodiscard]] std::vector<EvaluationColumn> total_columns();
/// Columns for samples of at most `tokens` tokens. /samples/step is the last one.
[[nodiscard]] std::vector<SampleColumn> sample_columns(std::int64_t tokens);

}  // namespace sluice
