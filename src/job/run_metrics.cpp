#include "job/run_metrics.hpp"

#include "train/phase_timer.hpp"

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
                                          ExpectedRows expected) {
  if (!context.is_root()) return std::nullopt;
  const ModelDescription& model = context.blueprint.model;
  MetricsHeader header;
  header.job_toml = to_toml(context.config());
  header.structure_hash = model.manifest.structure_hash().hex();
  header.world_size = context.comm.size();
  header.expected_rows = expected.steps;
  header.documents = expected.documents;
  header.phases.assign(kPhaseNames.begin(), kPhaseNames.end());
  header.moe_layers = model.config.moe_layer_count();
  header.experts = model.config.experts;
  std::optional<MetricsWriter> writer(std::in_place,
                                      context.directory.new_file(context.config().metrics.file), header);
  if (load) writer->write_load(load_table(*load));
  return writer;
}

}  // namespace sluice
