#include "job/plan/job_plan.hpp"

#include "base/bytes.hpp"
#include "base/log.hpp"
#include "checkpoint/hosts/rank_disks.hpp"
#include "checkpoint/step_directory.hpp"
#include "comm/outcome.hpp"
#include "comm/run_together.hpp"
#include "comm/solo_communicator.hpp"
#include "job/plan/resume_point.hpp"
#include "job/plan/stored_weights.hpp"
#include "job/plan/workload.hpp"
#include "job/prepare/load_request.hpp"
#include "job/prepare/save_plan.hpp"
#include "plan/optimizer_fit.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

namespace sluice {
namespace {

/// Format in which frozen weights are kept; all formats have the same numbers.
struct FrozenForm {
  FrozenFormat format;
  Offload offload;
};

/// Formats of frozen weights to try, in order.
std::vector<FrozenForm> forms_of(const JobConfig& config, const StoredTensors& storable) {
  std::vector<FrozenForm> forms{{config.model.frozen_format, config.memory.offload}};
  if (is_quantised_by_load(config.model.frozen_format)) return forms;
  if (config.model.frozen_format == FrozenFormat::kDType && !storable.quantised().is_empty())
    forms.push_back({FrozenFormat::kStored, config.memory.offload});
  if (may_stay_in_files(config) && config.memory.offload == Offload::kNone && !storable.is_empty())
    forms.push_back({FrozenFormat::kStored, Offload::kSource});
  return forms;
}

JobConfig with_mode(JobConfig config, const OptimizerMode& mode, const FrozenForm& form) {
  config.model.frozen_format = form.format;
  config.memory.offload = form.offload;
  config.optimizer.set_mode(mode);
  return config;
}

/// Numbers of copies of the model above 1 that the job may have on these machines, the largest first: each copy has
/// whole machines.
std::vector<int> several_replicas(const JobConfig& config, const Machine& machine) {
  std::vector<int> found;
  if (machine.device.kind == DeviceKind::kCuda || config.job.kind == JobKind::kExport) return found;
  const int ranks = machine.ranks();
  const std::int64_t group = std::max<std::int64_t>(config.parallel.expert_parallel, 1);
  for (int replicas = ranks; replicas > 1; --replicas) {
    const int world = ranks / replicas;
    bool is_possible = ranks % replicas == 0 && world % group == 0;
    for (int first = world; is_possible && first < ranks; first += world)
      is_possible = machine.machines[static_cast<std::size_t>(first)] !=
                    machine.machines[static_cast<std::size_t>(first) - 1];
    if (is_possible) found.push_back(replicas);
  }
  return found;
}

/// Text about the rank that lacks the most memory; "" if none lacks any.
std::string find_lack(const JobPlan& plan) {
  std::string lack;
  std::int64_t most = 0;
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const std::int64_t limit = plan.machine.growth_limits[rank];
    const std::int64_t peak = plan.ranks[rank].peak(), beyond = peak - usable_bytes(limit);
    if (beyond <= most) continue;
    most = beyond;
    lack = fmt::format(
        "optimizer.fit: no mode leaves a tenth of every rank's memory free. The smallest needs {} on rank "
        "{}, which may take {} in all. Use more ranks on more machines, or see sluice plan",
        format_bytes(peak), rank, format_bytes(std::max<std::int64_t>(limit, 0)));
  }
  return lack;
}

LoadOutline outline_of(const PlannedLoad& planned) {
  const LoadPlan& plan = planned.plan;
  LoadOutline load{.tensors = std::ssize(planned.index.entries),
                   .files = std::ssize(planned.index.files),
                   .reads = std::ssize(plan.chunks()),
                   .read_bytes = plan.read_bytes(),
                   .skipped = ignored_text(planned.match)};
  for (const int rank : plan.readers().readers())
    load.readers.push_back({rank, plan.read_bytes(rank), plan.sent_bytes(rank)});
  return load;
}

/// Adds what a further set of ranks reads for itself.
void add_set(const PlannedLoad& planned, const ParallelDims& dims, int set, LoadOutline& load) {
  const LoadOutline own = outline_of(planned);
  load.reads += own.reads;
  load.read_bytes += own.read_bytes;
  for (LoadOutline::Reader reader : own.readers) {
    reader.rank += set * dims.world;
    load.readers.push_back(reader);
  }
}

SavePlan plan_saves(const JobConfig& config, const std::vector<RankMemory>& ranks, const Machine& machine,
                    const ParallelDims& dims) {
  SavePlan saves{.step_bytes = saved_step_bytes(ranks)};
  if (may_save_apart(config, machine))
    saves.step_bytes_of_host =
        std::ranges::max(step_bytes_of_disks(ranks, RankDisks(machine.nodes), partner_copies(config), dims));
  return saves;
}

}  // namespace

std::string replicas_text(const JobPlan& plan) {
  return fmt::format("copies of the model: {}, the most that fit whole machines (parallel.replicas = 0)",
                     plan.config().parallel.replicas);
}

std::string vocabulary_text(const JobPlan& plan) {
  const JobPlan::VocabularyBytes& bytes = *plan.chosen_vocabulary;
  return fmt::format("vocabulary: sharded, {} a step in place of {}{} (parallel.vocabulary = \"auto\")",
                     format_bytes(bytes.sharded), format_bytes(bytes.gathered),
                     bytes.sharded < bytes.gathered ? "" : ", as memory is short");
}

bool chooses_mode(const JobConfig& config) {
  return is_training(config.job.kind) && config.optimizer.fit == OptimizerFit::kAuto;
}

JobPlan::JobPlan(std::shared_ptr<const Blueprint> job, std::shared_ptr<const FoundInFiles> found, Machine on,
                 std::optional<Staging> known)
    : blueprint(std::move(job)),
      shards(blueprint->shard_plan(on.ranks())),
      machine(std::move(on)),
      staging(known
                  ? *std::move(known)
                  : Staging{largest_staging(*blueprint, shards, machine.nodes, machine.device.memory()), ""}),
      found_(std::move(found)) {}

JobPlan& JobPlan::count_memory() {
  ranks =
      blueprint->memory_plan(shards, workload_of(config(), machine, found_->teacher_tokens), staging.bytes);
  saves = plan_saves(config(), ranks, machine, shards.dims());
  return *this;
}

/// Plans the load by the headers of the weights, in this process alone.
void JobPlan::read_headers() {
  if (config().model.init == ModelInit::kRandom) return;
  SoloCommunicator self;
  load.emplace();
  load->fault = outcome_of([&] {
    std::vector<std::int64_t> bytes;
    const std::optional<SavedStep> step = share_saved_step(self, config().model.path);
    for (int set = 0; set < shards.dims().replicas; ++set) {
      const PlannedLoad planned = plan_weights(
          self, *blueprint, shards, nodes_of_set(shards, machine.nodes, set), machine.device.memory(), step);
      std::ranges::copy(planned_staging(planned.plan), std::back_inserter(bytes));
      if (set == 0)
        load = outline_of(planned);
      else if (!planned.plan.passes_on())
        add_set(planned, shards.dims(), set, *load);
    }
    staging.bytes = std::move(bytes);
  });
  const std::filesystem::path& path = config().model.path;
  if (load->fault.failed())
    staging.not_exact = holds_weights(path) || is_saved_step(path)
                            ? load->fault.text
                            : fmt::format("there are no weights in {} to plan with", path.string());
}

/// Collective over `comm`. Takes the staging of the load that rank 0 plans by headers, on every rank.
void JobPlan::find_staging(Communicator& comm) {
  const std::string text = share_from_root(comm, [&] {
    read_headers();
    return nlohmann::json{staging.bytes, staging.not_exact}.dump(-1, ' ', false,
                                                                 nlohmann::json::error_handler_t::replace);
  });
  const nlohmann::json shared = nlohmann::json::parse(text);
  staging = {shared[0].get<std::vector<std::int64_t>>(), shared[1].get<std::string>()};
}

JobPlan JobPlan::fit(const Blueprint& written, const JobConfig& config,
                     const std::shared_ptr<const FoundInFiles>& found, const Machine& machine) {
  std::optional<JobPlan> smallest;
  for (const OptimizerMode& mode : fitting_modes(config.optimizer.mode(), config.model.dtype)) {
    // State on a disk is updated while it is in memory, which needs released gradients.
    if (config.memory.offload == Offload::kDisk && mode.gradients != GradientMode::kRelease) continue;
    for (const FrozenForm& form : forms_of(config, found->storable)) {
      const JobConfig tried = with_mode(config, mode, form);
      StoredTensors kept = kept_as_stored(tried, found->storable);
      smallest.emplace(
          JobPlan(std::make_shared<const Blueprint>(written, tried, std::move(kept)), found, machine)
              .with_chosen_vocabulary());
      smallest->lack = find_lack(*smallest);
      if (smallest->lack.empty()) break;
    }
    if (smallest->lack.empty()) break;
  }
  smallest->is_fitted = true;
  return *std::move(smallest);
}

JobPlan JobPlan::outline(const std::shared_ptr<const Blueprint>& written, const JobConfig& config,
                         const std::shared_ptr<const FoundInFiles>& found, const Machine& machine) {
  if (chooses_mode(config)) return fit(*written, config, found, machine);
  StoredTensors kept = kept_as_stored(config, found->storable);
  const bool is_written =
      !chooses_mode(written->config) && !chooses_replicas(written->config) && kept.is_empty();
  return JobPlan(is_written ? written : std::make_shared<const Blueprint>(*written, config, std::move(kept)),
                 found, machine)
      .with_chosen_vocabulary();
}

JobPlan::Fit JobPlan::fit_in_memory() const {
  bool has_room = lack.empty();
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::int64_t limit = machine.growth_limits[rank];
    if (ranks[rank].certain() > limit) return Fit::kNone;
    has_room = has_room && ranks[rank].peak() <= usable_bytes(limit);
  }
  return has_room ? Fit::kRoomLeft : Fit::kTight;
}

bool JobPlan::fits() const { return fit_in_memory() == Fit::kRoomLeft; }

JobPlan JobPlan::with_most_replicas(const std::shared_ptr<const Blueprint>& written, JobConfig config,
                                    const std::shared_ptr<const FoundInFiles>& found,
                                    const Machine& machine) {
  const auto plan_with = [&](int replicas) {
    config.parallel.replicas = replicas;
    JobPlan plan = outline(written, config, found, machine);
    plan.has_chosen_replicas = true;
    return plan;
  };
  for (const int replicas : several_replicas(config, machine))
    if (JobPlan plan = plan_with(replicas); plan.fits()) return plan;
  return plan_with(1);
}

JobPlan JobPlan::make(Communicator& comm, const std::shared_ptr<const Blueprint>& written,
                      const Machine& machine, std::optional<HeldStep> resumed) {
  const JobConfig config = resumed ? with_saved_mode(written->config, resumed->found) : written->config;
  const auto found = std::make_shared<const FoundInFiles>(
      FoundInFiles{stored_weights(comm, *written, machine.device.memory()), teacher_tokens(comm, config)});
  JobPlan plan = chooses_replicas(config) ? with_most_replicas(written, config, found, machine)
                                          : outline(written, config, found, machine);
  plan.resumed = std::move(resumed);
  plan.find_staging(comm);
  plan.count_memory();
  return plan.with_chosen_frozen();
}

/// Whether it is left to the plan to keep frozen dense weights, and there are any that ranks gather.
bool JobPlan::may_keep_frozen() const {
  const bool has_any = std::ranges::any_of(blueprint->layouts.units, [](const FlatLayout& unit) {
    return !unit.is_trained() && unit.kind() != UnitKind::kExperts;
  });
  return config().parallel.frozen == FrozenWeights::kAuto && has_any && machine.ranks() > 1 &&
         !computes_on_gpus() && lack.empty();
}

/// This plan with frozen dense weights kept, if that is left to the plan and all ranks then fit without more on a disk;
/// else this plan.
JobPlan JobPlan::with_chosen_frozen() const {
  if (!may_keep_frozen()) return *this;
  JobPlan kept = with([](JobConfig& config) { config.parallel.frozen = FrozenWeights::kKept; });
  if (!kept.fits()) return *this;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (kept.ranks[rank].kept_weights == 0 ||
        kept.ranks[rank].offload.file_bytes() > ranks[rank].offload.file_bytes())
      return *this;
  kept.take_facts(*this);
  return kept;
}

/// This plan, its memory counted, with embedding and head sharded where that is left to the plan and fewer bytes are
/// sent, unless the other choice leaves more memory where it is short; and with both gathered where a set has one rank.
JobPlan JobPlan::with_chosen_vocabulary() {
  const auto changed_to = [&](VocabularySharing sharing) {
    JobPlan plan = changed([&](JobConfig& config) { config.parallel.vocabulary = sharing; });
    plan.take_facts(*this);
    return plan;
  };
  const VocabularySharing wanted = config().parallel.vocabulary;
  if (wanted == VocabularySharing::kSharded && shards.world() == 1)
    return changed_to(VocabularySharing::kGathered).count_memory();
  const Workload work = workload_of(config(), machine, found_->teacher_tokens);
  if (wanted != VocabularySharing::kAuto || shards.world() == 1 || !work.computes || computes_on_gpus())
    return count_memory();
  if (may_keep_frozen()) count_memory();
  JobPlan sharded = changed_to(VocabularySharing::kSharded);
  // A head that is not trained is sent once where it can be kept.
  const JobPlan gathered = with_chosen_frozen();
  sharded.chosen_vocabulary = {gathered.blueprint->vocabulary_traffic(gathered.shards, work),
                               sharded.blueprint->vocabulary_traffic(sharded.shards, work)};
  const bool sends_less = sharded.chosen_vocabulary->sharded < sharded.chosen_vocabulary->gathered;
  JobPlan& first = sends_less ? sharded : *this;
  if (first.count_memory().fits()) return first;
  JobPlan& other = sends_less ? *this : sharded;
  const Fit here = first.fit_in_memory(), there = other.count_memory().fit_in_memory();
  const bool lacks_less = here == Fit::kNone && other.largest_peak() < first.largest_peak();
  return there > here || (there == here && lacks_less) ? other : first;
}

void JobPlan::take_facts(const JobPlan& other) {
  resumed = other.resumed;
  load = other.load;
  is_fitted = other.is_fitted;
  has_chosen_replicas = other.has_chosen_replicas;
  chosen_vocabulary = other.chosen_vocabulary;
  lack = other.lack;
}

JobPlan JobPlan::changed(const std::function<void(JobConfig&)>& change) const {
  JobConfig other = config();
  change(other);
  StoredTensors kept = kept_as_stored(other, found_->storable);
  const bool loads_alike = other.model.frozen_format == config().model.frozen_format &&
                           other.memory.offload == config().memory.offload;
  return JobPlan(std::make_shared<const Blueprint>(*blueprint, other, std::move(kept)), found_, machine,
                 loads_alike ? std::optional(staging) : std::nullopt);
}

JobPlan JobPlan::with(const std::function<void(JobConfig&)>& change) const {
  return changed(change).count_memory();
}

JobPlan JobPlan::with(Machine other) const {
  return JobPlan(blueprint, found_, std::move(other)).count_memory();
}

std::int64_t JobPlan::largest_peak() const { return std::ranges::max(ranks, {}, &RankMemory::peak).peak(); }

std::vector<RankMemory> JobPlan::limited_parts() const {
  std::vector<RankMemory> parts = ranks;
  if (computes_on_gpus()) std::ranges::transform(parts, parts.begin(), &RankMemory::on_gpu);
  return parts;
}

std::vector<StepTraffic> JobPlan::step_traffic(const ExpertShares& expert_shares) const {
  return blueprint->step_traffic(shards, workload_of(config(), machine, found_->teacher_tokens),
                                 expert_shares);
}

JobPlan plan_of_command(const JobConfig& config, const MachineArguments& told) {
  auto written = std::make_shared<const Blueprint>(config);
  SoloCommunicator self;
  std::optional<HeldStep> resumed = find_resume_point(
      self, RankDisks::of_this_host(), config, [](const std::string& text) { log::warning("{}", text); });
  return JobPlan::make(self, written, assumed_machine(config, told), std::move(resumed));
}

std::string mode_text(const OptimizerMode& mode) {
  return fmt::format("{}, state {}, master {}, gradients {}", name_of(mode.kind), name_of(mode.state),
                     name_of(mode.master), name_of(mode.gradients));
}

std::string choice_text(const JobPlan& plan) {
  std::string frozen;
  if (plan.config().model.frozen_format == FrozenFormat::kStored) {
    frozen = ", frozen weights as published";
    if (plan.config().memory.offload == Offload::kSource) frozen += ", some in their files";
  }
  return fmt::format("optimizer {}{}, chosen for {} a rank", mode_text(plan.config().optimizer.mode()),
                     frozen, format_bytes(plan.machine.smallest_limit()));
}

}  // namespace sluice
