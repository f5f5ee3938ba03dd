#include "job/run_directory.hpp"

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "checkpoint/hosts/held_steps.hpp"
#include "comm/solo_communicator.hpp"
#include "config/job_copy.hpp"
#include "config/schema.hpp"
#include "io/path.hpp"
#include "job/answers/job_prompts.hpp"
#include "job/plan/resume_point.hpp"
#include "job/prepare/target_place.hpp"
#include "metrics/segments.hpp"
#include "process/host_name.hpp"
#include "process/signal_watch.hpp"

#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <system_error>
#include <vector>

namespace sluice {
namespace fs = std::filesystem;
namespace {

/// Progress in a status: what was done, with its loss and speed, without the time that was left.
RunProgress progress_in(const nlohmann::json& status) {
  RunProgress progress;
  for (const std::string_view unit : kProgressUnits)
    if (const std::optional<double> done = number_in(status, unit)) {
      progress.unit = unit;
      progress.done = static_cast<std::int64_t>(*done);
    }
  progress.loss = number_in(status, "loss").value_or(progress.loss);
  progress.tokens_per_second = number_in(status, "tokens_per_second").value_or(progress.tokens_per_second);
  return progress;
}

bool tells_done(const nlohmann::json& status) { return text_in(status, "state") == "done"; }

/// First exit code of ends by a signal, and a limit above all codes.
constexpr int kFirstSignalCode = 128, kAnyCode = std::numeric_limits<int>::max();

fs::path log_name(int rank) { return fmt::format("rank-{:05}.log", rank); }

/// Rank whose log has this name; -1 if it is not the name of a log.
int rank_of_log(const std::string& name) {
  constexpr std::string_view kBegin = "rank-";
  int rank = -1;
  if (name.starts_with(kBegin)) std::from_chars(name.data() + kBegin.size(), name.data() + name.size(), rank);
  return rank >= 0 && log_name(rank) == name ? rank : -1;
}

/// Removes logs of ranks from `world_size` on, which an earlier run with more ranks left.
void remove_logs_of_other_ranks(const fs::path& directory, int world_size) {
  std::error_code error;
  std::vector<fs::path> others;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error))
    if (rank_of_log(entry.path().filename().string()) >= world_size) others.push_back(entry.path());
  for (const fs::path& log : others) fs::remove(log, error);
  if (error) log::warning("logs of an earlier run in {}: {}", directory.string(), error.message());
}

void remove_segments(const fs::path& file) {
  std::error_code error;
  for (int number = 1; fs::remove(metrics_segment(file, number), error); ++number) {
  }
  if (error)
    fail(write_failure(error.value()), "cannot replace the segments of {}: {}", file.string(),
         error.message());
}

struct Result {
  const char* key;
  fs::path file;
};

/// Results that the job will write, apart from an export.
std::vector<Result> results_of(const JobConfig& config) {
  std::vector<Result> results;
  if (!config.metrics.file.empty())
    results.push_back({"metrics.file", config.job.output / config.metrics.file});
  if (is_training(config.job.kind) && !config.debug.dump.empty())
    results.push_back({"debug.dump", config.job.output / config.debug.dump});
  return results;
}

/// Result files of a job, and those that are added to answer by answer, whoever has begun them.
std::vector<Result> files_of(const JobConfig& config) {
  std::vector<Result> files = results_of(config);
  if (answers_prompts(config))
    files.push_back({"generate.output", config.job.output / config.generate.output});
  if (config.job.kind == JobKind::kScore)
    files.push_back({"score.file", config.job.output / config.score.file});
  return files;
}

/// The checkpoint from which the job would go on, as this process alone sees it.
std::optional<HeldStep> resume_point_here(const JobConfig& config) {
  SoloCommunicator self;
  return find_resume_point(self, RankDisks::of_this_host(), config, [](const std::string&) {});
}

/// Refuses results of an earlier run, unless the job goes on with them: it `resumes` from a checkpoint, or begins again
/// a training that had ended before its first one.
void require_no_results(const JobConfig& config, bool resumes) {
  if (config.job.overwrite) return;
  for (const Result& result : results_of(config)) {
    if (!fs::exists(result.file) || resumes || begins_run_again(config)) continue;
    const bool is_done_already = tells_done(status_if_readable(config.job.output)) && is_job_of_run(config);
    fail({ExitCode::kBadConfig, "job.output_taken"},
         "job.output: {}{}; give this run another job.output, or set job.overwrite = true to replace it",
         result.file.string(),
         is_done_already ? " has the results of this very job, which is done already"
                         : " is left from an earlier run");
  }
}

/// Refuses a job.toml that is not a run's copy: a user may keep a job file of his own there.
void require_no_other_job_file(const fs::path& file) {
  if (!path_exists(file)) return;
  if (!is_job_copy(file))
    fail({ExitCode::kBadConfig, "job.output_taken"},
         "job.output: {} is not a copy that this version of sluice wrote, and the copy of this run's job "
         "would replace it; rename it, or choose another directory",
         file.string());
}

}  // namespace

void RunDirectory::check(const JobConfig& config) {
  require_creatable("job.output", config.job.output / "status.json");
  require_no_results(config, resume_point_here(config).has_value());
  require_no_other_job_file(config.job.output / kJobCopyFile);
  for (const Result& file : files_of(config)) require_creatable(file.key, file.file);
}

RunDirectory::RunDirectory(const JobConfig& config, const Communicator& comm)
    : path_(config.job.output),
      rank_(comm.rank()),
      is_root_(comm.rank() == 0 && !config.job.output.empty()),
      overwrites_(config.job.overwrite),
      world_size_(comm.size()),
      started_(utc_now()),
      kind_(name_of(config.job.kind)) {
  if (is_root_) create(config);
}

void RunDirectory::begin_log() const {
  if (path_.empty()) return;
  const fs::path directory = path_ / "logs";
  const fs::path file = directory / log_name(rank_);
  std::error_code error;
  fs::create_directories(directory, error);
  if (overwrites_) fs::remove(file, error);
  if (overwrites_ && is_root_) remove_logs_of_other_ranks(directory, world_size_);
  try {
    log::add_file(file.string());
  } catch (const Error& e) {
    log::warning("{}", e.what());
  }
  log::debug("sluice {} ({}), rank {} of {}, process {} on {}, started {}", version(), git_revision(), rank_,
             world_size_, getpid(), host_name(), started_);
  if (is_root_) log::debug("attempt {} of this run", attempt_);
}

void RunDirectory::create(const JobConfig& config) {
  make_directories(path_);
  lock_ = RunLock(path_);
  // Finds the resume point first, or job.toml would be the wrong one.
  const std::optional<HeldStep> resumed = resume_point_here(config);
  require_no_results(config, resumed.has_value());
  require_no_other_job_file(path_ / kJobCopyFile);
  for (const Result& file : files_of(config)) {  // refuses now, not after hours of loading
    make_directories(file.file.parent_path());
    try_to_create_beside(file.key, file.file);
  }
  const nlohmann::json earlier = status_if_readable(path_);
  was_done_before_ = !config.job.overwrite && tells_done(earlier);
  earlier_ = progress_in(earlier);
  const auto last_attempt = static_cast<std::int64_t>(number_in(earlier, "attempt").value_or(0));
  attempt_ = 1 + std::max(last_attempt, resumed ? resumed->found.step.attempt : 0);
  set_job(config);
  write_status();
  if (!lock_.refusal().empty())
    heartbeat_ = std::jthread([this](const std::stop_token& stop) { beat(stop); });
}

/// Writes the status again before it is as old as is_running() allows, until the run has ended.
void RunDirectory::beat(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, stop, std::chrono::duration<double>(kHeartbeatSeconds),
                         [&] { return stop.stop_requested(); }))
    if (!tells_of_failure(kAnyCode)) try_write_status(Durability::kKernel);
}

void RunDirectory::set_job(const JobConfig& config) const {
  if (is_root_) write_text_file(path_ / kJobCopyFile, job_copy_text(config, fs::current_path()));
}

void RunDirectory::set_plan(const std::string& text) const {
  if (is_root_) write_text_file(path_ / kPlanFile, text);
}

fs::path RunDirectory::new_file(const fs::path& name) const {
  std::error_code error;
  if (is_root_ && overwrites_) fs::remove(file(name), error);
  if (error)
    fail(write_failure(error.value()), "cannot replace {}: {}", file(name).string(), error.message());
  return file(name);
}

fs::path RunDirectory::new_segment(const fs::path& name) const {
  fs::path next = new_file(name);
  if (is_root_ && overwrites_) remove_segments(next);
  for (int number = 1; is_root_ && path_exists(next); ++number) next = metrics_segment(file(name), number);
  return next;
}

void RunDirectory::set_status(const std::string& state) noexcept {
  const std::lock_guard lock(mutex_);
  state_ = state;
  if (is_root_) try_write_status();
}

void RunDirectory::set_progress(const RunProgress& progress) noexcept {
  constexpr double kSeconds = 10;
  const std::lock_guard lock(mutex_);
  const bool is_first = progress_.done == 0;
  progress_ = progress;
  if (is_root_ && (is_first || since_status_.seconds() >= kSeconds)) try_write_status();
}

void RunDirectory::set_done_before(RunProgress progress) noexcept {
  if (earlier_.unit == progress.unit && earlier_.done == progress.done) {
    progress.loss = earlier_.loss;
    progress.tokens_per_second = earlier_.tokens_per_second;
  }
  set_progress(progress);
}

void RunDirectory::set_saved(std::int64_t step, const std::string& when) noexcept {
  const std::lock_guard lock(mutex_);
  saved_step_ = step;
  saved_ = when;
  if (is_root_) try_write_status();
}

void RunDirectory::set_best(std::int64_t step, double held_out_loss) noexcept {
  const std::lock_guard lock(mutex_);
  best_step_ = step;
  best_loss_ = held_out_loss;
}

void RunDirectory::set_done(ExitCode ending, const std::string& note) noexcept {
  const std::lock_guard lock(mutex_);
  heartbeat_.request_stop();
  state_ = ending == ExitCode::kResumable ? "saved" : "done";
  end_ = {{ending, "job.signal"},
          ending == ExitCode::kResumable ? "ended by a signal; run again to go on" : note};
  if (is_root_) try_write_status();
}

void RunDirectory::set_failed(const Outcome& failure) noexcept {
  const std::lock_guard lock(mutex_);
  heartbeat_.request_stop();
  state_ = "failed";
  // The first failure is the cause; a signal may follow from it.
  if (tells_of_failure(kFirstSignalCode)) return;
  end_ = failure;
  // Rank 0 is ended together with the job, so the failing rank writes, if it sees the directory.
  std::error_code error;
  if (is_root_ || (!path_.empty() && fs::exists(path_ / "status.json", error))) try_write_status();
}

void RunDirectory::set_ended_by(int signal_number, ExitCode code, const std::string& cause) noexcept {
  const std::lock_guard lock(mutex_);
  if (!is_root_ || state_ == "done" || state_ == "saved" || tells_of_failure(kAnyCode)) return;
  if (code == ExitCode::kResumable) {
    state_ = "saved";
    end_ = {{code, "job.signal"},
            fmt::format("ended by {}, checkpoint saved; run the same command again to resume",
                        signal_name(signal_number))};
  } else {
    state_ = "failed";
    end_ = {{code, "job.signal"},
            fmt::format("ended by {}: {}", signal_name(signal_number),
                        cause.empty() ? "from the scheduler or a user, or from the launcher because another "
                                        "rank has died"
                                      : cause)};
  }
  try_write_status(Durability::kKernel);
}

/// Whether a rank has recorded that the job failed with a code below `code_limit`.
bool RunDirectory::tells_of_failure(int code_limit) const noexcept {
  const nlohmann::json status = status_if_readable(path_);
  return text_in(status, "state") == "failed" && number_in(status, "exit_code").value_or(0) < code_limit;
}

void RunDirectory::try_write_status(Durability durability) noexcept {
  try {
    since_status_ = {};
    write_status(durability);
  } catch (const std::exception& e) {
    log::warning("status.json: {}", e.what());
  }
}

void RunDirectory::write_status(Durability durability) const {
  // Other ranks do not know the progress that rank 0 has written.
  nlohmann::json status = is_root_ ? nlohmann::json::object() : status_if_readable(path_);
  status.update(nlohmann::json{{"state", state_},
                               {"kind", kind_},
                               {"host", host_name()},
                               {"pid", getpid()},
                               {"started", started_},
                               {"updated", utc_now()},
                               {"world_size", world_size_}});
  if (attempt_ > 0) status["attempt"] = attempt_;
  if (!lock_.refusal().empty()) status["locked"] = false;
  if (progress_.done > 0) {
    status[std::string(progress_.unit)] = progress_.done;
    status[std::string(progress_.unit) + "s"] = progress_.total;
    if (std::isfinite(progress_.loss)) status["loss"] = progress_.loss;
    if (std::isfinite(progress_.tokens_per_second)) status["tokens_per_second"] = progress_.tokens_per_second;
    if (progress_.seconds_left >= 0) status["seconds_left"] = progress_.seconds_left;
  }
  if (saved_step_ > 0) {
    status["saved_step"] = saved_step_;
    status["saved"] = saved_;
  }
  if (best_step_ > 0) {
    status["best_step"] = best_step_;
    status["best_held_out_loss"] = best_loss_;
  }
  if (end_) status["exit_code"] = static_cast<int>(end_->code);
  if (end_ && end_->failed()) status["id"] = end_->id.text();
  if (end_ && !end_->text.empty()) status["message"] = end_->text;
  sluice::write_status(path_, status, durability);
}

}  // namespace sluice
