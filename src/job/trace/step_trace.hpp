// Trace of the train steps or passes of answers that [trace] names: recorded on every rank, and written to
// the run directory, or to where the command line says.
#pragma once

#include "comm/clock/clock_offset.hpp"
#include "job/job.hpp"

#include <cstdint>

namespace sluice {

class StepTrace {
 public:
  explicit StepTrace(JobContext& context) : context_(context) {}

  /// Begins the recording with the first step of trace.steps that this run makes; a pass of answers is a step
  /// here. Collective over the context's communicator then. `step` counts from 1.
  void before_step(std::int64_t step);

  /// Ends the recording behind the last step of trace.steps: each rank writes its file, and warns if that
  /// fails; rank 0 prints what was recorded. Collective over the context's communicator then.
  void after_step(std::int64_t step);
  /// Ends a recording that is still in progress after the run's last step, as after_step().
  void finish(std::int64_t last_step);

 private:
  JobContext& context_;
  bool is_recording_ = false;
  std::int64_t first_step_ = 0;
  ClockOffset clock_;
};

}  // namespace sluice
