#include "job/job.hpp"

#include <map>

namespace sluice {
namespace {

std::map<JobKind, JobFunction>& registry() {
  static std::map<JobKind, JobFunction> jobs;
  return jobs;
}

}  // namespace

JobRegistration::JobRegistration(JobKind kind, JobFunction function) { registry().emplace(kind, function); }

JobFunction find_job(JobKind kind) {
  const auto found = registry().find(kind);
  if (found == registry().end())
    fail(ExitCode::kBadConfig, "job.kind: this program was built without a job of that kind");
  return found->second;
}

}  // namespace sluice
