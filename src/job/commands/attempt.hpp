// A job that a process of its ranks is about to run: where the commands that run one meet.
#pragma once

#include "comm/outcome.hpp"
#include "job/answers/generate_request.hpp"
#include "job/blueprint.hpp"
#include "job/signal_watch.hpp"

#include <memory>

namespace sluice {

/// What this rank made of the job and the model, or why it could not.
struct Attempt {
  std::unique_ptr<const JobConfig> config;
  std::unique_ptr<const Blueprint> blueprint;
  std::unique_ptr<const GenerateRequest> request{};  ///< of a command line, if it asks something
  Outcome outcome{};
};

/// Starts MPI, agrees with the other ranks and runs the job, or reports why not; returns the exit status. Collective over
/// the processes that mpirun or srun started.
[[nodiscard]] int run_attempt(const Attempt& attempt, SignalWatch& signals);

}  // namespace sluice
