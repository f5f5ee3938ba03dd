// When a training saves a step and when it ends early: by the intervals of the job file, by signals, and
// before the end of its Slurm allocation.
#pragma once

#include "base/clock.hpp"
#include "comm/communicator.hpp"
#include "config/job_config.hpp"
#include "launch/slurm/allocation.hpp"
#include "process/signal_watch.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

namespace sluice {

/// What a training shall do after a step, alike on all ranks.
struct AfterStep {
  int signal = 0;                ///< signal that asks the job to end; 0: none
  bool allocation_ends = false;  ///< whether another step and its save might not end in time
  bool saves = false;            ///< whether an interval of [checkpoint] has passed
  bool is_writing = false;       ///< whether some rank still writes the step before

  [[nodiscard]] bool ends_job() const { return signal != 0 || allocation_ends; }
  /// "SIGTERM"; what ends a job that ends_job().
  [[nodiscard]] std::string cause() const;
};

class SaveSchedule {
 public:
  /// All three must outlive this.
  SaveSchedule(Communicator& comm, SignalWatch& signals, const CheckpointSettings& settings)
      : comm_(comm), signals_(signals), settings_(settings) {}

  /// Collective over the communicator. From here on a signal is noted, to be answered after a step. Rank 0
  /// looks for the end of the allocation where checkpoint.margin_seconds asks for it.
  void begin_steps();
  /// From here on a signal ends the process.
  void end_steps() { stop_.reset(); }

  /// Collective over the communicator, after each step between begin_steps() and end_steps(). `is_writing`:
  /// whether this rank still writes an earlier step.
  [[nodiscard]] AfterStep after_step(std::int64_t step, bool is_writing);

  /// Restarts checkpoint.every_minutes: a save begins, or a saved step was restored.
  void restart_interval() { since_save_.restart(); }
  void add_save(double seconds) { longest_save_ = std::max(longest_save_, seconds); }

 private:
  void find_allocation();
  void end_step();
  [[nodiscard]] bool allocation_ends();

  Communicator& comm_;
  SignalWatch& signals_;
  const CheckpointSettings& settings_;
  std::optional<SignalWatch::StopRequest> stop_;  ///< request to stop, while checkpoints can be saved
  std::optional<Allocation> allocation_;          ///< Slurm allocation, on rank 0, if its end matters
  Stopwatch since_step_;
  Stopwatch since_save_;
  double longest_step_ = 0;  ///< duration of the longest step, seconds, with the saving in it
  double longest_save_ = 0;  ///< duration of the longest save, seconds
};

}  // namespace sluice
