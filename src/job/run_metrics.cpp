#include "job/run_metrics.hpp"

#include "base/fault.hpp"
#include "base/log.hpp"
#include "train/phase_timer.hpp"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

LoadTable load_table(const LoadReport& report) {
  LoadTable table;
  for (const RankLoad& rank : report.ranks) {
    table.bytes_received.push_back(rank.received_bytes);
    table.shard_bytes.push_back(rank.shard_bytes);
    table.peak_staging_bytes.push_back(rank.peak_staging_bytes);
    table.peak_growth_bytes.push_back(rank.peak_growth_bytes);
    table.seconds.push_back(rank.seconds);
  }
  return table;
}

}  // namespace

std::optional<MetricsWriter> open_metrics(JobContext& context, const std::optional<LoadReport>& load,
                                          MetricsHeader header) {
  if (!context.is_root()) return std::nullopt;
  const ModelDescription& model = context.blueprint.model;
  header.job_toml = to_toml(context.config());
  header.structure_hash = model.manifest.structure_hash().hex();
  header.world_size = context.comm.size();
  header.has_gpus = context.plan.machine.device.kind == DeviceKind::kCuda;
  header.sample_tokens = context.config().generate.max_tokens;
  header.phases.assign(kPhaseNames.begin(), kPhaseNames.end());
  header.moe_layers = model.config.moe_layer_count();
  header.experts = model.config.experts;
  std::optional<MetricsWriter> writer(std::in_place,
                                      context.directory.new_segment(context.config().metrics.file), header);
  if (load) writer->write_load(load_table(*load));
  return writer;
}

RunMetrics::RunMetrics(JobContext& context, const std::optional<LoadReport>& load, MetricsHeader header)
    : writer_(open_metrics(context, load, std::move(header))),
      name_(context.directory.file(context.config().metrics.file).string()) {}

/// Tries a write; returns whether it succeeded. Warns only if that differs from the last attempt.
bool RunMetrics::attempt(const std::function<void()>& write) {
  const bool refused_before = !refusal_.empty();
  refusal_.clear();
  try {
    fault_point("metrics.append", 0);
    write();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kIo) throw;
    refusal_ = error.what();
  }
  if (refusal_.empty() && refused_before) log::warning("{} is written again", name_);
  if (!refusal_.empty() && !refused_before)
    log::warning("cannot write metrics (the run continues, and retries with every row): {}", refusal_);
  return refusal_.empty();
}

void RunMetrics::append(const TrainRow& row) {
  if (attempt([&] { writer_->append(row); })) return;
  ++missing_;
  lack_ = refusal_;
}

void RunMetrics::append(const std::vector<EvaluationRow>& documents, const EvaluationRow& total) {
  waiting_.insert(waiting_.end(), documents.begin(), documents.end());
  attempt([&] {
    write_waiting();
    writer_->write_total(total);
  });
  lack_ = refusal_;
}

void RunMetrics::append(const SampleRow& sample) {
  if (!attempt([&] { writer_->append(sample); })) lack_ = refusal_;
}

/// Writes the waiting rows one part at a time, so that a long list costs no more with each failure.
void RunMetrics::write_waiting() {
  constexpr std::int64_t kPart = 4096;
  while (!waiting_.empty()) {
    const auto end = waiting_.begin() + std::min(kPart, std::ssize(waiting_));
    writer_->append(std::vector(waiting_.begin(), end));
    waiting_.erase(waiting_.begin(), end);
  }
}

void RunMetrics::close() {
  try {
    fault_point("metrics.close", 0);
    writer_->close();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kIo) throw;
    log::warning("the metrics file could not be closed after its last row: {}", error.what());
    lack_ = error.what();
  }
  const std::int64_t missing = missing_ + std::ssize(waiting_);
  if (missing > 0)
    log::warning("{} lacks {} row{} of this run: {}", name_, missing, missing == 1 ? "" : "s", lack_);
}

}  // namespace sluice
