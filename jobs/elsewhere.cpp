// The job kinds that compute. LibTorch alone takes 0.6 s and 150 MB of every process that links it, so the
// program that loads, exports, checks and verifies does not, and hands these kinds over.

#include "job/job.hpp"
#include "job/versions.hpp"

namespace sluice {
namespace {

const JobRegistration kTrain(JobKind::kTrain, {.uses_gpus = true, .program = "sluice-train"});
const JobRegistration kEvaluate(JobKind::kEvaluate, {.uses_gpus = true, .program = "sluice-train"});
const JobRegistration kGenerate(JobKind::kGenerate, {.uses_gpus = true, .program = "sluice-train"});
const VersionLine kBlas([]() -> std::string {
  return "BLAS: sluice-train --version names the one that it computes with";
});

}  // namespace
}  // namespace sluice
