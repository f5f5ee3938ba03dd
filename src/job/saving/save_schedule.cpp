#include "job/saving/save_schedule.hpp"

#include "base/log.hpp"
#include "process/console.hpp"

#include <array>

namespace sluice {
namespace {

/// Seconds between SIGTERM and the end of the present step: at least, and in the first step.
constexpr double kLeastPatienceSeconds = 5, kFirstPatienceSeconds = 30;

}  // namespace

std::string AfterStep::cause() const {
  return signal != 0 ? signal_name(signal) : "the end of the allocation, which is near,";
}

void SaveSchedule::begin_steps() {
  comm_.barrier();  // waits, or a signal on one rank would end it while another trains already
  if (comm_.rank() == 0 && settings_.margin_seconds > 0) find_allocation();
  stop_.emplace(signals_);
  stop_->set_patience(kFirstPatienceSeconds);
  since_step_.restart();
}

void SaveSchedule::find_allocation() {
  allocation_.emplace();
  if (const std::optional<double> left = allocation_->seconds_left())
    console::line("time      the Slurm allocation ends in {:.0f} min; the job saves and ends before it",
                  *left / 60);
}

AfterStep SaveSchedule::after_step(std::int64_t step, bool is_writing) {
  end_step();
  const bool by_steps = settings_.every_steps > 0 && step % settings_.every_steps == 0;
  const bool by_time = comm_.rank() == 0 && settings_.every_minutes > 0 &&
                       since_save_.seconds() >= settings_.every_minutes * 60;
  std::array<std::int64_t, 4> asked{stop_->number(), by_time ? 1 : 0, is_writing ? 1 : 0,
                                    allocation_ends() ? 1 : 0};
  comm_.all_reduce_max(asked);
  if (asked[0] != 0) stop_->answer();
  return {.signal = static_cast<int>(asked[0]),
          .allocation_ends = asked[3] != 0,
          .saves = by_steps || asked[1] != 0,
          .is_writing = asked[2] != 0};
}

void SaveSchedule::end_step() {
  longest_step_ = std::max(longest_step_, since_step_.seconds());
  stop_->set_patience(std::max(kLeastPatienceSeconds, 2 * longest_step_));
  since_step_.restart();
}

/// Whether another step and its save might not end before the allocation does; on rank 0, false on other
/// ranks.
bool SaveSchedule::allocation_ends() {
  const double needed = settings_.margin_seconds + 2 * longest_step_ + 2 * longest_save_;
  if (!allocation_ || !allocation_->ends_within(needed)) return false;
  if (*allocation_->seconds_left() < longest_save_)
    log::warning("the allocation ends in {:.0f} s, and a save has taken {:.0f} s: it may not end in time",
                 *allocation_->seconds_left(), longest_save_);
  return true;
}

}  // namespace sluice
