#include "job/trace/step_trace.hpp"

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "base/trace/recorder.hpp"
#include "io/path.hpp"
#include "metrics/trace/trace_file.hpp"
#include "process/console.hpp"
#include "process/host_name.hpp"

#include <array>
#include <filesystem>
#include <utility>

namespace sluice {
namespace {

/// Writes this rank's trace; returns the bytes of the file, 0 with a warning if it cannot be written.
std::int64_t try_to_write(const std::filesystem::path& file, const TraceHeader& header,
                          const trace::Recording& recording) {
  try {
    make_directories(file.parent_path());
    return write_trace_file(file, header, recording);
  } catch (const Error& error) {
    log::warning("this rank's trace is missing: {}", error.what());
    return 0;
  }
}

/// The directory in which the ranks' traces lie.
const std::filesystem::path& directory_of(const JobContext& context) {
  return context.request != nullptr ? context.request->trace : context.directory.path();
}

}  // namespace

void StepTrace::before_step(std::int64_t step) {
  if (is_recording_ || !context_.config().trace.steps.has(step)) return;
  clock_ = measure_clock_offset(context_.comm);
  first_step_ = step;
  is_recording_ = true;
  trace::start();
}

void StepTrace::after_step(std::int64_t step) {
  if (!context_.config().trace.steps.has(step + 1)) finish(step);
}

void StepTrace::finish(std::int64_t last_step) {
  if (!std::exchange(is_recording_, false)) return;
  const trace::Recording recording = trace::stop();
  const std::int64_t begin = nanoseconds_of(recording.begin.time_since_epoch());
  const TraceHeader header{.rank = context_.comm.rank(),
                           .ranks = context_.comm.size(),
                           .host = host_name(),
                           .first_step = first_step_,
                           .last_step = last_step,
                           .begin_ns = begin - clock_.nanoseconds,
                           .round_trip_ns = clock_.round_trip_ns,
                           .dropped = recording.dropped};
  const std::int64_t bytes =
      try_to_write(trace_file_path(directory_of(context_), header.rank), header, recording);
  std::array<std::int64_t, 3> sums{std::ssize(recording.records), bytes, recording.dropped};
  context_.comm.all_reduce_sum(sums);
  if (!context_.is_root()) return;
  const std::int64_t steps = last_step - first_step_ + 1;
  const bool has_passes = context_.config().job.kind == JobKind::kGenerate;
  console::line("trace     {} {}-{}: {} and {} a {}; sluice trace {} makes one file of them",
                has_passes ? "passes" : "steps", first_step_, last_step, counted(sums[0] / steps, "record"),
                format_bytes(sums[1] / steps), has_passes ? "pass" : "step", directory_of(context_).string());
  if (sums[2] > 0)
    log::warning("{} of the trace found no room: trace.steps names too many steps",
                 counted(sums[2], "record"));
}

}  // namespace sluice
