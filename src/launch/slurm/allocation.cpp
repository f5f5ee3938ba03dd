#include "launch/slurm/allocation.hpp"

#include "io/child_program.hpp"

#include <charconv>
#include <chrono>
#include <cstdlib>

namespace sluice {
namespace {

std::optional<double> number_in(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !(number >= 0)) return std::nullopt;
  return number;
}

std::string variable_text(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Returns the seconds until the end of the allocation by SLURM_JOB_END_TIME; empty if the variable is not
/// set.
std::optional<double> announced_seconds_left() {
  const std::optional<double> end = number_in(variable_text("SLURM_JOB_END_TIME"));
  if (!end) return std::nullopt;
  return *end - Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

std::optional<SlurmJobName> slurm_job_name() {
  const std::string number = variable_text("SLURM_JOB_ID");
  if (number.empty()) return std::nullopt;
  const std::string array = variable_text("SLURM_ARRAY_JOB_ID"), task = variable_text("SLURM_ARRAY_TASK_ID");
  if (!array.empty() && !task.empty()) return SlurmJobName{array + "_" + task, number};
  const std::string leader = variable_text("SLURM_HET_JOB_ID");
  return SlurmJobName{leader.empty() ? number : leader, number};
}

std::optional<double> parse_slurm_time(std::string_view text) {
  double days = 0;
  if (const std::size_t dash = text.find('-'); dash != std::string_view::npos) {
    const std::optional<double> number = number_in(text.substr(0, dash));
    if (!number) return std::nullopt;
    days = *number;
    text.remove_prefix(dash + 1);
  }
  double seconds = 0;
  int parts = 0;
  for (;; ++parts) {
    const std::size_t colon = text.find(':');
    const std::optional<double> number = number_in(text.substr(0, colon));
    if (!number || parts == 3) return std::nullopt;
    seconds = 60 * seconds + *number;
    if (colon == std::string_view::npos) break;
    text.remove_prefix(colon + 1);
  }
  if (parts == 0) return std::nullopt;
  return days * 24 * 3600 + seconds;
}

Allocation::Allocation() {
  if (const std::optional<double> left = announced_seconds_left())
    end_.emplace(*left);
  else
    static_cast<void>(ask());
}

/// Asks Slurm for the end; returns whether it has answered.
bool Allocation::ask() {
  constexpr double kSeconds = 10;
  const std::optional<SlurmJobName> job = slurm_job_name();
  if (!job) return false;
  since_asked_.emplace();
  const std::optional<ProgramResult> answer =
      run_program({"squeue", "--noheader", "--format=%L", "--jobs=" + job->name}, kSeconds);
  if (!answer || answer->status != 0) return false;
  const std::string_view line = std::string_view(answer->output).substr(0, answer->output.find('\n'));
  end_.reset();
  if (const std::optional<double> left = parse_slurm_time(line)) end_.emplace(*left);
  return true;
}

std::optional<double> Allocation::seconds_left() const {
  if (!end_) return std::nullopt;
  return end_->seconds_left();
}

bool Allocation::ends_within(double seconds) {
  constexpr double kPause = 60;
  const auto seems_to = [&] { return end_ && end_->seconds_left() <= seconds; };
  if (seems_to() && (!since_asked_ || since_asked_->seconds() > kPause)) static_cast<void>(ask());
  return seems_to();
}

}  // namespace sluice
