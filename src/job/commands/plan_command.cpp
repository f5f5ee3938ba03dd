#include "base/bytes.hpp"
#include "checkpoint/step_directory.hpp"
#include "config/schema.hpp"
#include "job/blueprint.hpp"
#include "job/commands/commands.hpp"
#include "job/console.hpp"
#include "job/prepare/load_request.hpp"
#include "job/prepare/memory_check.hpp"
#include "job/prepare/optimizer_choice.hpp"
#include "job/prepare/save_plan.hpp"
#include "job/prepare/workload.hpp"
#include "job/stored/stored_weights.hpp"
#include "plan/optimizer_fit.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace sluice {
namespace {

struct PlanArguments {
  JobArguments job;  ///< job file; or a model directory or config.json, for a training job with all defaults
  int ranks = 1;
  std::optional<std::int64_t> memory_bytes;  ///< memory of one rank in bytes
  std::optional<std::int64_t> disk_rate;     ///< bytes that a rank's disk reads or writes per second
  bool json = false;
};

/// Advice on a setting that makes a job fit into memory.
struct FitAdvice {
  std::string change;           ///< change of the settings: "6 ranks", "job.kind = \"evaluate\""
  std::int64_t peak_bytes = 0;  ///< peak bytes of the rank that needs most
};

std::int64_t largest_peak(const std::vector<RankMemory>& ranks) {
  return std::ranges::max(ranks, {}, &RankMemory::peak).peak();
}

/// Advice to use more ranks. The peak falls with their number, so the least number that fits is found by
/// bisection.
std::optional<FitAdvice> more_ranks(const Blueprint& blueprint, int ranks, std::int64_t memory_bytes) {
  constexpr int kMaxRanks = 1024;
  const int group = std::max(1, static_cast<int>(blueprint.config.parallel.expert_parallel));
  const auto peak_of = [&](int groups) {
    return largest_peak(
        memory_on_separate_nodes(blueprint, blueprint.shard_plan(groups * group), memory_bytes));
  };
  int too_few = ranks / group, enough = kMaxRanks / group;
  if (too_few >= enough || peak_of(enough) > memory_bytes) return std::nullopt;
  while (enough - too_few > 1) {
    const int middle = too_few + (enough - too_few) / 2;
    (peak_of(middle) <= memory_bytes ? enough : too_few) = middle;
  }
  return FitAdvice{fmt::format("{} ranks", enough * group), peak_of(enough)};
}

/// Training on its ranks, to be tried with other settings.
struct Trial {
  Workload work;
  std::int64_t memory_bytes = 0;                         ///< memory of each rank
  std::function<std::int64_t(const Workload&)> peak_of;  ///< peak bytes of the rank that needs most

  /// Advice to make this change, if the job fits with it.
  [[nodiscard]] std::optional<FitAdvice> with(std::string change, const Workload& changed) const {
    const std::int64_t peak = peak_of(changed);
    return peak <= memory_bytes ? std::optional(FitAdvice{std::move(change), peak}) : std::nullopt;
  }
};

/// Advice to keep fewer activations for backward, as few as necessary.
std::optional<FitAdvice> more_recomputed(const Trial& trial) {
  for (const auto& [recompute, setting] : {std::pair{Recompute::kLayer, "train.recompute = \"layer\""},
                                           {Recompute::kAll, "train.recompute = \"all\""}}) {
    Workload changed = trial.work;
    set_recompute(changed, recompute);
    const std::optional<FitAdvice> advice = trial.with(setting, changed);
    if (advice && advice->peak_bytes < trial.peak_of(trial.work)) return advice;
  }
  return std::nullopt;
}

/// Advice with the first mode of this kind of optimizer that fits, as words to add to the command line.
std::optional<FitAdvice> smaller_state(const Trial& trial, OptimizerKind kind) {
  OptimizerMode written = trial.work.optimizer;
  const std::string other_kind =
      kind == written.kind ? "" : fmt::format("--set optimizer.kind={} ", name_of(kind));
  written.kind = kind;
  for (const OptimizerMode& mode : fitting_modes(written, trial.work.dtype)) {
    Workload changed = trial.work;
    changed.optimizer = mode;
    if (auto advice = trial.with(
            fmt::format("{}--set optimizer.state={} --set optimizer.master={} --set optimizer.gradients={}",
                        other_kind, name_of(mode.state), name_of(mode.master), name_of(mode.gradients)),
            changed))
      return advice;
  }
  return std::nullopt;
}

/// Advice with a mode of the same kind, or else of Adafactor, which keeps the least but has other learning
/// rates.
std::optional<FitAdvice> smaller_optimizer(const Trial& trial) {
  std::optional<FitAdvice> same = smaller_state(trial, trial.work.optimizer.kind);
  return same ? same : smaller_state(trial, OptimizerKind::kAdafactor);
}

/// Advice to release gradients and to offload the rest to a disk, if that fits with the mode as written.
std::optional<FitAdvice> use_of_a_disk(const Trial& trial) {
  if (trial.work.offload_above) return std::nullopt;
  Workload changed = trial.work;
  changed.optimizer.gradients = GradientMode::kRelease;
  changed.offload_above = usable_bytes(trial.memory_bytes);
  return trial.with("--set memory.offload=disk --set optimizer.gradients=release", changed);
}

/// Advice with a job kind that fits if training does not.
std::optional<FitAdvice> other_kind(const Trial& trial, JobKind kind) {
  Workload changed = trial.work;
  set_kind(changed, kind);
  return trial.with(fmt::format("job.kind = \"{}\"", name_of(kind)), changed);
}

/// Changes with which no rank of the job needs more than `memory_bytes`, for each sort the smallest one.
/// Empty if none is known. `staging_bytes` as in plan_memory().
std::vector<FitAdvice> advise(const Blueprint& blueprint, int ranks, std::int64_t memory_bytes,
                              std::span<const std::int64_t> staging_bytes) {
  std::vector<std::optional<FitAdvice>> found{more_ranks(blueprint, ranks, memory_bytes)};
  const ShardPlan plan = blueprint.shard_plan(ranks);
  const Trial trial{
      workload_of(blueprint.config, planned_memory(blueprint.config), memory_bytes), memory_bytes,
      [&](const Workload& work) { return largest_peak(blueprint.memory_plan(plan, work, staging_bytes)); }};
  if (blueprint.config.job.kind == JobKind::kTrain)
    found.insert(found.end(), {more_recomputed(trial), smaller_optimizer(trial), use_of_a_disk(trial),
                               other_kind(trial, JobKind::kEvaluate), other_kind(trial, JobKind::kExport),
                               other_kind(trial, JobKind::kLoad)});
  std::vector<FitAdvice> advice;
  for (const std::optional<FitAdvice>& one : found)
    if (one) advice.push_back(*one);
  return advice;
}

bool fit(const std::vector<RankMemory>& ranks, std::int64_t memory_bytes) {
  return std::ranges::all_of(ranks, [&](const RankMemory& rank) { return rank.peak() <= memory_bytes; });
}

/// Bytes of the loader's ring on each rank, and the reason why they are only an upper bound, or "".
struct Staging {
  std::vector<std::int64_t> bytes;
  std::string not_exact;
};

/// Staging bytes of the load plan that a run would make, if there are files to plan with.
Staging plan_staging(const Blueprint& blueprint, const ShardPlan& shards) {
  const std::vector<int> nodes = separate_nodes(shards.world());
  Staging staging{largest_staging(blueprint, shards, nodes, planned_memory(blueprint.config)), ""};
  const ModelSettings& model = blueprint.config.model;
  if (model.init == ModelInit::kRandom) return staging;
  staging.not_exact = fmt::format("there are no weights in {} to plan with", model.path.string());
  if (!holds_weights(model.path) && !is_saved_step(model.path)) return staging;
  try {
    return {planned_staging(plan_weights(blueprint, shards, nodes).plan), ""};
  } catch (const Error& error) {
    staging.not_exact = error.what();
    return staging;
  }
}

nlohmann::json disk_json(const OffloadPlan& offload, std::optional<std::int64_t> disk_rate) {
  nlohmann::json out{{"weights_bytes", offload.weight_bytes},
                     {"optimizer_bytes", offload.state_bytes},
                     {"step_read_bytes", offload.step_read_bytes},
                     {"step_written_bytes", offload.step_written_bytes}};
  if (disk_rate) out["step_seconds"] = offload.step_seconds(*disk_rate);
  return out;
}

/// Prints the bytes that lie on a disk, and those that a step reads and writes.
void print_disk(const std::vector<RankMemory>& ranks, std::optional<std::int64_t> disk_rate) {
  std::vector<std::vector<std::string>> rows{
      {"on disk", "weights", "optimizer", "read a step", "written a step"}};
  if (disk_rate) rows.front().emplace_back("seconds a step");
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const OffloadPlan& offload = ranks[rank].offload;
    if (offload.file_bytes() == 0) continue;
    std::vector<std::string>& row = rows.emplace_back(std::vector<std::string>{fmt::format("rank {}", rank)});
    for (const std::int64_t bytes :
         {offload.weight_bytes, offload.state_bytes, offload.step_read_bytes, offload.step_written_bytes})
      row.push_back(format_bytes(bytes));
    if (disk_rate) row.push_back(fmt::format("{:.2f}", offload.step_seconds(*disk_rate)));
  }
  if (rows.size() > 1) console::write_line(console::table(rows));
}

nlohmann::json as_json(const std::vector<RankMemory>& ranks, int world, std::optional<std::int64_t> limit,
                       std::optional<std::int64_t> disk_rate, const Blueprint& blueprint,
                       const Staging& staging) {
  nlohmann::json out{{"parameters", blueprint.model.manifest.parameter_count()},
                     {"structure_hash", blueprint.model.manifest.structure_hash().hex()},
                     {"staging_is_exact", staging.not_exact.empty()},
                     {"stored_parameters", blueprint.stored.elements()}};
  if (blueprint.config.job.kind == JobKind::kTrain) out["saved_step_bytes"] = saved_step_bytes(ranks);
  if (const std::int64_t bytes = step_bytes_of_host(blueprint.config, ranks); bytes > 0)
    out["saved_step_bytes_of_a_host"] = bytes;
  const OptimizerMode mode = blueprint.config.optimizer.mode();
  if (blueprint.config.job.kind == JobKind::kTrain)
    out["mode"] = {{"kind", name_of(mode.kind)},
                   {"state", name_of(mode.state)},
                   {"master", name_of(mode.master)},
                   {"gradients", name_of(mode.gradients)}};
  for (const RankMemory& memory : ranks) {
    nlohmann::json row;
    for (const auto& [name, bytes] : memory.parts()) row[std::string(name) + "_bytes"] = bytes;
    for (const auto& [name, bytes] : memory.phases()) row["phases"][std::string(name) + "_bytes"] = bytes;
    row["peak_bytes"] = memory.peak();
    if (memory.offload.file_bytes() > 0) row["disk"] = disk_json(memory.offload, disk_rate);
    if (wants_gpus(blueprint.config)) {
      row["gpu_peak_bytes"] = memory.on_gpu().peak();
      row["main_memory_peak_bytes"] = memory.beside_gpu().peak();
    }
    if (limit) row["fits"] = fit(part_that_must_fit({memory}, blueprint.config), *limit);
    out["ranks"].push_back(row);
  }
  if (!limit || fit(part_that_must_fit(ranks, blueprint.config), *limit)) return out;
  for (const FitAdvice& advice : advise(blueprint, world, *limit, staging.bytes))
    out["would_fit"].push_back({{"change", advice.change}, {"peak_bytes", advice.peak_bytes}});
  return out;
}

/// Table with a row per rank, and a column for each named number that `list` returns.
template <class List>
std::string as_table(const std::vector<RankMemory>& ranks, std::string_view title, List list) {
  std::vector<std::vector<std::string>> rows{{std::string(title)}};
  for (const auto& [name, bytes] : list(ranks.front())) rows.front().emplace_back(name);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::vector<std::string>& row = rows.emplace_back(std::vector<std::string>{fmt::format("rank {}", rank)});
    for (const auto& [name, bytes] : list(ranks[rank])) row.push_back(bytes > 0 ? format_bytes(bytes) : "-");
  }
  return console::table(rows);
}

void print_verdict(const std::vector<RankMemory>& ranks, std::int64_t memory_bytes) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::int64_t left = memory_bytes - ranks[rank].peak();
    console::line("rank {}: {} {} of {}", rank, left >= 0 ? "fits, leaving" : "does not fit, lacking",
                  format_bytes(std::abs(left)), format_bytes(memory_bytes));
  }
}

/// Prints what takes the most memory if the job does not fit, and what would help.
void print_advice(const std::vector<RankMemory>& ranks, const std::vector<FitAdvice>& advice) {
  const RankMemory& most = *std::ranges::max_element(ranks, {}, &RankMemory::peak);
  if (most.optimizer > 0)
    console::line("The optimizer takes {} of these {}: {} of moments and master weights, {} of gradients.",
                  format_bytes(most.optimizer + most.gradients), format_bytes(most.peak()),
                  format_bytes(most.optimizer), format_bytes(most.gradients));
  console::line(
      "{}", advice.empty() ? "No supported setting makes this job fit." : "It would fit with one of these:");
  for (const FitAdvice& option : advice)
    console::line("  {}: {} per rank", option.change, format_bytes(option.peak_bytes));
}

/// The job of a file. A directory, or a file named config.json, stands for a job that trains that model with
/// all defaults and the overrides.
JobConfig planned_job(const JobArguments& arguments) {
  namespace fs = std::filesystem;
  std::error_code error;
  const bool is_config = arguments.file.filename() == "config.json";
  if (!is_config && !fs::is_directory(arguments.file, error))
    return load_job_config(arguments.file, arguments.overrides);
  const fs::path model = is_config ? arguments.file.parent_path() : arguments.file;
  JobConfig config;
  config.model.path = model.empty() ? "." : model;
  config.job.output = config.model.path / "run";  // two paths that a plan does not use
  config.data.tokens = config.model.path / "tokens.h5";
  return parse_job_config(to_toml(config), arguments.file.string(), arguments.overrides);
}

/// The job as it would run, with the optimizer mode that its ranks would choose, as far as that can be told.
JobConfig fitted_job(const PlanArguments& arguments, JobConfig config) {
  const std::optional<std::int64_t> limit = told_growth_limit(config, arguments.memory_bytes);
  if (!chooses_mode(config) || !limit) return config;
  return fit_optimizer(config, arguments.ranks, *limit).config;
}

/// Prints the optimizer's mode, and if it was chosen, the memory `limit` of a rank by which it was.
void print_mode(const JobConfig& config, std::optional<std::int64_t> limit) {
  if (config.job.kind != JobKind::kTrain) return;
  std::string choice;
  if (chooses_mode(config))
    choice = limit ? ", chosen by optimizer.fit"
                   : "; optimizer.fit chooses by the memory of a rank, which --memory tells";
  console::line("  Optimizer: {}{}.", mode_text(config.optimizer.mode()), choice);
}

/// Prints bytes per rank for each purpose, and whether they fit.
int plan_command(const PlanArguments& arguments) {
  const Blueprint blueprint = blueprint_with_stored(fitted_job(arguments, planned_job(arguments.job)));
  const std::optional<std::int64_t> limit = told_growth_limit(blueprint.config, arguments.memory_bytes);
  const ShardPlan plan = blueprint.shard_plan(arguments.ranks);
  const Staging staging = plan_staging(blueprint, plan);
  const Workload work = workload_of(blueprint.config, planned_memory(blueprint.config), limit);
  const std::vector<RankMemory> ranks = blueprint.memory_plan(plan, work, staging.bytes);
  if (arguments.json) {
    console::write_line(
        as_json(ranks, arguments.ranks, limit, arguments.disk_rate, blueprint, staging).dump(2));
    return 0;
  }
  console::write_line(as_table(ranks, "bytes per rank", [](const RankMemory& rank) { return rank.parts(); }));
  console::write_line(
      as_table(ranks, "needed at once", [](const RankMemory& rank) { return rank.phases(); }));
  if (wants_gpus(blueprint.config))
    console::write_line(as_table(ranks, "at the peak", [](const RankMemory& rank) {
      return std::array<std::pair<std::string_view, std::int64_t>, 2>{
          {{"GPU", rank.on_gpu().peak()}, {"main memory", rank.beside_gpu().peak()}}};
    }));
  print_disk(ranks, arguments.disk_rate);
  console::line("  The process itself, with its code and libraries, comes on top.");
  print_mode(blueprint.config, limit);
  if (blueprint.config.job.kind == JobKind::kTrain && blueprint.config.checkpoint.saves())
    console::line("  A saved step takes {} on the disk, and {} of them and one in the making {}.",
                  format_bytes(saved_step_bytes(ranks)), blueprint.config.checkpoint.keep,
                  format_bytes((blueprint.config.checkpoint.keep + 1) * saved_step_bytes(ranks)));
  if (const std::int64_t bytes = step_bytes_of_host(blueprint.config, ranks); bytes > 0)
    console::line("  On hosts of one rank each that share no file system {}.",
                  hosts_text(std::array{bytes}, blueprint.config.checkpoint.partner_copies));
  if (!staging.not_exact.empty()) console::line("  Staging is what it may be at most: {}", staging.not_exact);
  if (!limit) return 0;
  const std::vector<RankMemory> limited = part_that_must_fit(ranks, blueprint.config);
  print_verdict(limited, *limit);
  if (!fit(limited, *limit)) print_advice(ranks, advise(blueprint, arguments.ranks, *limit, staging.bytes));
  return 0;
}

}  // namespace

void add_plan(CommandLine& line) {
  const auto [command, arguments] =
      add_command<PlanArguments>(line, "plan", "Memory of each rank, by purpose", plan_command);
  add_job_arguments(command, arguments.job,
                    "Job file, or a model directory or config.json to train with defaults");
  add_ranks(command, "--ranks", arguments.ranks, "Number of ranks")->required();
  add_size(command, "--memory", arguments.memory_bytes, "Memory of one rank, such as 128.5GB");
  add_size(command, "--disk-rate", arguments.disk_rate,
           "Bytes a second of a rank's disk, for memory.offload, such as 2GB");
  command.add_flag("--json", arguments.json, "Print JSON");
}

}  // namespace sluice
