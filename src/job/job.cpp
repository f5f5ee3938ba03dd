#include "job/job.hpp"

#include <map>

namespace sluice {
namespace {

std::map<JobKind, Job>& registry() {
  static std::map<JobKind, Job> jobs;
  return jobs;
}

}  // namespace

JobRegistration::JobRegistration(JobKind kind, const Job& job) { registry().emplace(kind, job); }

const Job* find_job(JobKind kind) {
  const auto found = registry().find(kind);
  return found == registry().end() ? nullptr : &found->second;
}

bool uses_gpus(JobKind kind) { return kind != JobKind::kExport; }

}  // namespace sluice
