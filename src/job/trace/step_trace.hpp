// The train steps that [trace] names, recorded on every rank and left in the run directory.
#pragma once

#include "comm/clock/clock_offset.hpp"
#include "job/job.hpp"

#include <cstdint>

namespace sluice {

class StepTrace {
 public:
  explicit StepTrace(JobContext& context) : context_(context) {}

  /// Collective over the context's communicator, where the recording begins: with the first step of
  /// trace.steps that this run makes. `step` counts from 1.
  void before_step(std::int64_t step);

  /// Collective over the context's communicator, where the recording ends: behind the last of these steps.
  /// Each rank writes its file, one that cannot warns; rank 0 prints what was recorded.
  void after_step(std::int64_t step);
  /// Ends a recording that still goes on behind the last step that the run makes, as after_step().
  void finish(std::int64_t last_step);

 private:
  JobContext& context_;
  bool is_recording_ = false;
  std::int64_t first_step_ = 0;
  ClockOffset clock_;
};

}  // namespace sluice
