#include "checkpoint/save.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/fault.hpp"
#include "checkpoint/block_reader.hpp"
#include "checkpoint/rank_file.hpp"
#include "checkpoint/span_reader.hpp"
#include "checkpoint/step_directory.hpp"
#include "comm/outcome.hpp"
#include "comm/run_together.hpp"
#include "shard/finite_check.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// What ranks wait between two meetings while they do nothing but write: a failure is known soon.
constexpr double kMeetingSeconds = 0.2;

/// A file that is there already, as the manifest lists it.
SavedFile describe_file(const fs::path& directory, const fs::path& name) {
  const InputFile in = InputFile::open(directory / name);
  SavedFile file{name.string(), in.size_bytes(), {}, {}};
  std::vector<std::byte> block(static_cast<std::size_t>(std::min(kSavedBlockBytes, file.bytes)));
  for (std::int64_t begin = 0; begin < file.bytes; begin += kSavedBlockBytes) {
    const auto count = static_cast<std::size_t>(std::min(kSavedBlockBytes, file.bytes - begin));
    in.read_at(begin, std::span(block).first(count));
    file.blocks.push_back(digest_of(std::span(block).first(count), 0));
  }
  return file;
}

}  // namespace

/// What the thread of a rank works with. It keeps it alive.
class StepSave::Writing {
 public:
  Writing(const SaveRequest& request, int rank)
      : manifest_(request.manifest),
        has_disk_(request.offload != nullptr),
        reader_(request.state, request.limit_seconds, request.offload),
        file_(request.manifest, request.state, rank),
        limit_seconds_(request.limit_seconds) {}

  static void start(const std::shared_ptr<Writing>& writing, const fs::path& directory) {
    writing->file_.create(directory);
    writing->thread_ = std::thread([writing] { writing->run(); });
  }

  /// Ends the thread at its next block; leaves it alone where it seems to be stuck.
  void stop() {
    reader_.stop();
    if (!thread_.joinable()) return;
    if (is_stuck_)
      thread_.detach();
    else
      thread_.join();
  }

  [[nodiscard]] SpanReader& reader() { return reader_; }

  [[nodiscard]] bool has_ended() const {
    const std::lock_guard lock(mutex_);
    return has_ended_;
  }

  /// Waits that long for the end. Error(kIo) if the thread failed, or is stuck.
  void wait(double seconds) {
    std::unique_lock lock(mutex_);
    const std::int64_t blocks = blocks_;
    if (!ended_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return has_ended_; }) &&
        blocks == blocks_)
      idle_seconds_ += seconds;
    else
      idle_seconds_ = 0;
    if (outcome_.failed()) throw Error(outcome_.code, outcome_.text);
    if (idle_seconds_ < limit_seconds_) return;
    is_stuck_ = true;
    fail(ExitCode::kIo, "the disk has taken nothing of {} for {:.0f} s (deadline.save_seconds)", file_.name(),
         idle_seconds_);
  }

  /// Of the thread that has ended well.
  [[nodiscard]] const SavedFile& file() const { return saved_; }

 private:
  void run() {
    Outcome outcome = outcome_of([&] {
      const auto append = [&](const StateSpan& span, std::span<const std::byte> bytes) {
        if (has_disk_) require_finite(span, bytes);
        file_.append(bytes);
      };
      while (reader_.next(kSavedBlockBytes, append)) {
        const std::lock_guard lock(mutex_);
        ++blocks_;
      }
      if (!reader_.stopped()) saved_ = file_.close();
    });
    reader_.stop();
    {
      const std::lock_guard lock(mutex_);
      has_ended_ = true;
      outcome_ = std::move(outcome);
    }
    ended_.notify_all();
  }

  void require_finite(const StateSpan& span, std::span<const std::byte> bytes) const {
    if (span.array != kWeightsArray) return;
    const std::int64_t count = std::ssize(bytes) / size_of(span.dtype);
    if (first_non_finite(bytes.data(), count, span.dtype) >= 0) fail_for_updated(manifest_[span.tensor].name);
  }

  const ParameterManifest& manifest_;
  bool has_disk_;
  SpanReader reader_;
  RankFileWriter file_;
  double limit_seconds_;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  Outcome outcome_;
  SavedFile saved_;
  std::int64_t blocks_ = 0;
  double idle_seconds_ = 0;  ///< that the thread did not write anything, as far as it was waited for
  bool is_stuck_ = false;
};

StepSave::StepSave(Communicator& comm, SaveRequest request)
    : comm_(comm),
      request_(std::move(request)),
      target_(request_.directory / step_name(request_.description.step)),
      writing_(std::make_shared<Writing>(request_, comm.rank())) {
  request_.state = {};  // one entry for each run of each array: the writer has them
  run_together(comm_, [&] {
    if (is_root()) staged_.emplace(target_, IfTaken::kNextName);
  });
  const fs::path directory = comm_.broadcast_text(staged_ ? staged_->path().string() : "", 0);
  try {
    run_together(comm_, [&] {
      fault_point("checkpoint.create", comm_.rank());
      Writing::start(writing_, directory);
    });
  } catch (...) {
    writing_->stop();
    throw;
  }
  waited_seconds_ = since_begin_.seconds();
}

StepSave::~StepSave() { writing_->stop(); }

void StepSave::keep(int unit) {
  const Stopwatch watch;
  writing_->reader().keep(unit);
  waited_seconds_ += watch.seconds();
}

bool StepSave::is_written() const { return writing_->has_ended(); }

SaveReport StepSave::finish() {
  const Stopwatch watch;
  wait_until_written();
  const std::vector<std::string> files = comm_.all_gather_text(to_text(writing_->file()));
  SaveReport report;
  run_on_root(comm_, [&] { report.bytes = publish(files); });
  run_on_root(comm_, [&] { prune(); });
  report.best = request_.description.best;
  report.seconds = since_begin_.seconds();
  report.waited_seconds = waited_seconds_ + watch.seconds();
  return report;
}

/// Ranks meet meanwhile, so that none waits for another longer than the deadlines of communication allow.
void StepSave::wait_until_written() {
  for (std::int64_t writing = 1; writing != 0;) {
    run_together(comm_, [&] { writing_->wait(kMeetingSeconds); });
    writing = writing_->has_ended() ? 0 : 1;
    comm_.all_reduce_max(std::span(&writing, 1));
  }
}

/// Rank 0. Returns the bytes of all files.
std::int64_t StepSave::publish(const std::vector<std::string>& files) {
  SavedStep step = request_.description;
  for (const std::string& file : files) step.files.push_back(saved_file_from(file));
  copy_files(request_.companions, staged_->path());
  for (const CompanionFile& companion : request_.companions)
    step.files.push_back(describe_file(staged_->path(), companion.name));
  fault_point("checkpoint.manifest", 0);
  OutputFile manifest = OutputFile::create(staged_->path() / kManifestFile);
  const std::string text = to_manifest(step);
  manifest.write_at(0, std::as_bytes(std::span(text)));
  fault_point("checkpoint.manifest", 0);
  manifest.close();
  if (!StagedDirectory::is_free(target_)) replace_step();
  fault_point("checkpoint.commit", 0);
  staged_->commit();
  fault_point("checkpoint.commit", 0);
  return step.bytes();
}

/// Rank 0. A step of this number may be one that this training has gone back behind, or, where this rank was cut off and the
/// job was started again without it, one of a later attempt.
void StepSave::replace_step() const {
  std::int64_t attempt = 0;
  static_cast<void>(outcome_of([&] { attempt = read_saved_step(target_).attempt; }));  // a broken one may go
  if (attempt > request_.description.attempt)
    fail(ExitCode::kInternal,
         "{} was saved by attempt {} of this run, and this is attempt {}, which does not count any more",
         target_.string(), attempt, request_.description.attempt);
  remove_step(target_);
}

/// Rank 0.
void StepSave::prune() const {
  for (const fs::path& path : request_.superseded)
    if (path != target_ && !StagedDirectory::is_free(path)) remove_step(path);
  for (const StepPlace& place : steps_to_remove(list_steps(request_.directory), request_.keep,
                                                request_.keep_every, request_.description.best.step))
    remove_step(place.path);
}

SaveReport save_step(Communicator& comm, SaveRequest request) {
  return StepSave(comm, std::move(request)).finish();
}

}  // namespace sluice
