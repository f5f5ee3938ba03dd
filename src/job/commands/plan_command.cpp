#include "base/bytes.hpp"
#include "config/schema.hpp"
#include "data/score_file.hpp"
#include "job/commands/commands.hpp"
#include "job/commands/run_files.hpp"
#include "job/plan/advice.hpp"
#include "job/plan/job_plan.hpp"
#include "job/plan/plan_json.hpp"
#include "job/plan/stored_weights.hpp"
#include "job/prepare/load_request.hpp"
#include "job/prepare/memory_check.hpp"
#include "job/prepare/save_plan.hpp"
#include "plan/optimizer_fit.hpp"
#include "process/console.hpp"
#include "report/expert_load.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace sluice {
namespace {

struct PlanArguments {
  JobArguments job;  ///< job file; or a model directory or config.json, for a training job with all defaults
  MachineArguments machine;
  std::optional<std::int64_t> disk_rate;  ///< bytes that a rank's disk reads or writes per second
  std::optional<std::int64_t> link_rate;  ///< bytes that a rank's link sends per second
  std::filesystem::path routing;  ///< run whose counts of tokens tell how experts are chosen; "": evenly
  bool json = false;
};

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

/// Table with a row per rank, and a column for each named number that `list` returns.
template <class Rank, class List>
std::string as_table(const std::vector<Rank>& ranks, std::string_view title, List list) {
  std::vector<std::vector<std::string>> rows{{std::string(title)}};
  for (const auto& [name, bytes] : list(ranks.front())) rows.front().emplace_back(name);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::vector<std::string>& row = rows.emplace_back(std::vector<std::string>{fmt::format("rank {}", rank)});
    for (const auto& [name, bytes] : list(ranks[rank])) row.push_back(bytes > 0 ? format_bytes(bytes) : "-");
  }
  return console::table(rows);
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

/// Prints the optimizer's mode, and whether it was chosen.
void print_mode(const JobPlan& plan, bool is_told) {
  if (plan.has_chosen_replicas) console::line("  {}.", replicas_text(plan));
  if (plan.chosen_vocabulary) console::line("  {}.", vocabulary_text(plan));
  if (!is_training(plan.config().job.kind)) return;
  std::string choice;
  if (plan.is_fitted && is_told) choice = ", chosen by optimizer.fit";
  if (plan.is_fitted && !is_told)
    choice =
        fmt::format(", chosen by optimizer.fit for {} a rank, as this machine has; --memory tells another",
                    format_bytes(plan.machine.smallest_limit()));
  console::line("  Optimizer: {}{}.", mode_text(plan.config().optimizer.mode()), choice);
}

void print_tables(const JobPlan& plan, std::optional<std::int64_t> disk_rate) {
  const std::vector<RankMemory>& ranks = plan.ranks;
  console::write_line(as_table(ranks, "bytes per rank", [](const RankMemory& rank) { return rank.parts(); }));
  console::write_line(
      as_table(ranks, "needed at once", [](const RankMemory& rank) { return rank.phases(); }));
  if (plan.computes_on_gpus())
    console::write_line(as_table(ranks, "at the peak", [](const RankMemory& rank) {
      return std::array<std::pair<std::string_view, std::int64_t>, 2>{
          {{"GPU", rank.on_gpu().peak()}, {"main memory", rank.beside_gpu().peak()}}};
    }));
  print_disk(ranks, disk_rate);
}

/// Prints what each rank sends in a step, where ranks send anything.
void print_traffic(const JobPlan& plan, const PlanView& view) {
  const std::vector<StepTraffic> traffic = plan.step_traffic(view.expert_shares);
  const StepTraffic& most = *std::ranges::max_element(traffic, {}, &StepTraffic::all);
  if (most.all() == 0) return;
  console::write_line(as_table(traffic, "sent a step", [](const StepTraffic& rank) { return rank.parts(); }));
  if (!view.link_rate) return;
  console::line("  A step sends {} from the rank that sends most: {:.3g} s at least of its link.",
                format_bytes(most.all()),
                static_cast<double>(most.all()) / static_cast<double>(*view.link_rate));
}

void print_saves(const JobPlan& plan) {
  const CheckpointSettings& settings = plan.config().checkpoint;
  if (is_training(plan.config().job.kind) && settings.saves())
    console::line("  A checkpoint takes {} on the disk, and {} of them and one in the making {}.",
                  format_bytes(plan.saves.step_bytes), settings.keep,
                  format_bytes((settings.keep + 1) * plan.saves.step_bytes));
  if (const std::int64_t bytes = plan.saves.step_bytes_of_host; bytes > 0)
    console::line("  On hosts that share no file system {}.", hosts_text(std::array{bytes}, plan.config()));
}

nlohmann::json json_of(const JobPlan& plan, const PlanView& view) {
  nlohmann::json out = to_json(plan, view);
  if (!view.memory_limit || fit(plan.limited_parts(), *view.memory_limit)) return out;
  for (const FitAdvice& advice : advise(plan, *view.memory_limit))
    out["would_fit"].push_back({{"change", advice.change}, {"peak_bytes", advice.peak_bytes}});
  return out;
}

/// Shares of choices of the experts in an earlier run of the planned model; empty without one. Error(kBadData) for a
/// run of another number of experts or MoE layers.
ExpertShares shares_of_run(const JobPlan& plan, const std::filesystem::path& run) {
  if (run.empty()) return {};
  ExpertShares shares = expert_shares(find_run_files(run).metrics());
  const ModelConfig& model = plan.blueprint->model.config;
  const std::int64_t layers = std::ssize(shares), experts = layers == 0 ? 0 : std::ssize(shares.front());
  if (layers != model.moe_layer_count() || (layers > 0 && experts != model.experts))
    fail(
        {ExitCode::kBadData, "plan.routing"},
        "--routing {}: found counts of {} experts in {} MoE layers, expected {} in {}: is it a run of this model?",
        run.string(), experts, layers, model.experts, model.moe_layer_count());
  return shares;
}

/// Prints bytes per rank for each purpose, and whether they fit.
int plan_command(const PlanArguments& arguments) {
  const JobPlan plan = plan_of_command(planned_job(arguments.job), arguments.machine);
  const PlanView view{told_growth_limit(plan.config(), arguments.machine.memory_bytes), arguments.disk_rate,
                      arguments.link_rate, shares_of_run(plan, arguments.routing)};
  if (arguments.json) {
    print_json(json_of(plan, view));
    return 0;
  }
  print_tables(plan, view.disk_rate);
  print_traffic(plan, view);
  console::line("  The process itself, with its code and libraries, comes on top.");
  print_mode(plan, view.memory_limit.has_value());
  print_saves(plan);
  if (plan.config().job.kind == JobKind::kScore)
    console::line("  The file of scores takes {} bytes a document{}.", kScoreBytes,
                  token_score_bytes(plan.config().score) > 0
                      ? fmt::format(", and {} a token", token_score_bytes(plan.config().score))
                      : "");
  if (plan.resumed)
    console::line("  It goes on from step {}, {}.", plan.resumed->found.step.step,
                  plan.resumed->found.path.string());
  if (!plan.staging.not_exact.empty())
    console::line("  Staging is what it may be at most: {}", plan.staging.not_exact);
  if (!view.memory_limit) return 0;
  const std::vector<RankMemory> limited = plan.limited_parts();
  for (std::size_t rank = 0; rank < limited.size(); ++rank)
    console::line("rank {}: {}", rank, verdict_text(limited[rank], *view.memory_limit));
  if (!fit(limited, *view.memory_limit)) print_advice(limited, advise(plan, *view.memory_limit));
  return 0;
}

}  // namespace

void add_plan(CommandLine& line) {
  const auto [command, arguments] =
      add_command<PlanArguments>(line, "plan", "Memory of each rank, by purpose", plan_command);
  add_job_arguments(command, arguments.job,
                    "Job file, or a model directory or config.json to train with defaults");
  add_machine(command, arguments.machine)->required();
  add_size(command, "--disk-rate", arguments.disk_rate,
           "Bytes a second of a rank's disk, for memory.offload, such as 2GB");
  add_link_rate(command, "--link-rate", arguments.link_rate,
                "Rate of a rank's link, for the seconds of a step, such as 1Gbit");
  command.add_option("--routing", arguments.routing,
                     "Run whose experts were chosen as here; default: evenly");
  command.add_flag("--json", arguments.json, "Print JSON");
}

}  // namespace sluice
