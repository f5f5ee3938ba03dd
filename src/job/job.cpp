#include "job/job.hpp"

#include "job/prepare/load_request.hpp"
#include "job/prepare/workload.hpp"

#include <algorithm>
#include <map>

namespace sluice {
namespace {

std::map<JobKind, Job>& registry() {
  static std::map<JobKind, Job> jobs;
  return jobs;
}

}  // namespace

std::vector<RankMemory> JobContext::memory_plan() const {
  Workload work = workload_of(config(), device.memory(), std::ranges::min(growth_limits));
  work.threads = threads;
  // Counted in any case, since hosts may share no file system.
  if (config().checkpoint.storage == SaveStorage::kAuto && std::ranges::max(nodes) > 0)
    work.save_staging_bytes += copies_taken_bytes(config());
  return blueprint.memory_plan(plan, work, largest_staging(blueprint, plan, nodes, device.memory()));
}

JobRegistration::JobRegistration(JobKind kind, const Job& job) { registry().emplace(kind, job); }

const Job* find_job(JobKind kind) {
  const auto found = registry().find(kind);
  return found == registry().end() ? nullptr : &found->second;
}

bool uses_gpus(JobKind kind) { return kind != JobKind::kExport; }

}  // namespace sluice
