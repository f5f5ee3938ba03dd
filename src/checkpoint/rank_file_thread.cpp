#include "checkpoint/rank_file_thread.hpp"

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "checkpoint/block_writer.hpp"
#include "shard/finite_check.hpp"

#include <chrono>
#include <utility>

namespace sluice {

RankFileThread::RankFileThread(const ParameterManifest& manifest, const std::vector<StateSpan>& state,
                               const ShardArena* paged, double limit_seconds, int rank, int number)
    : manifest_(manifest),
      has_disk_(paged != nullptr),
      reader_(state, limit_seconds, paged),
      file_(manifest, state, number),
      rank_(rank),
      limit_seconds_(limit_seconds) {}

void RankFileThread::start(const std::shared_ptr<RankFileThread>& thread,
                           const std::filesystem::path& directory, const std::optional<CopyTarget>& target) {
  thread->file_.create(directory);
  thread->directory_ = directory;
  thread->target_ = target;
  thread->thread_ = std::thread([thread] { thread->run(); });
}

void RankFileThread::stop() {
  reader_.stop();
  stop_.request_stop();
  if (!thread_.joinable()) return;
  if (is_stuck_)
    thread_.detach();
  else
    thread_.join();
}

bool RankFileThread::has_ended() const {
  const std::lock_guard lock(mutex_);
  return has_ended_;
}

void RankFileThread::wait(double seconds) {
  std::unique_lock lock(mutex_);
  const std::int64_t blocks = blocks_;
  if (!ended_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return has_ended_; }) &&
      blocks == blocks_)
    idle_seconds_ += seconds;
  else
    idle_seconds_ = 0;
  outcome_.throw_if_failed();
  if (idle_seconds_ < limit_seconds_) return;
  is_stuck_ = true;
  fail({ExitCode::kIo, "io.stalled"}, "{} {} for {:.0f} s (deadline.save_seconds)",
       is_sending_ ? "no other host has taken anything of the copy of" : "the disk has taken nothing of",
       file_.name(), idle_seconds_);
}

void RankFileThread::run() {
  Outcome outcome = outcome_of([&] {
    const auto append = [&](const StateSpan& span, std::span<const std::byte> bytes) {
      if (has_disk_) require_finite(span, bytes);
      file_.append(bytes);
    };
    while (reader_.next(kSavedBlockBytes, append)) count_block();
    if (reader_.stopped()) return;
    saved_ = file_.close();
    reader_.stop();  // the copy is made from the disk, so all units may change
    if (target_) send();
  });
  reader_.stop();
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    outcome_ = std::move(outcome);
  }
  ended_.notify_all();
}

void RankFileThread::send() {
  {
    const std::lock_guard lock(mutex_);
    is_sending_ = true;
  }
  send_copy(directory_, saved_, *target_, rank_, {limit_seconds_, stop_.get_token()}, [&] { count_block(); });
}

void RankFileThread::count_block() {
  const std::lock_guard lock(mutex_);
  ++blocks_;
}

void RankFileThread::require_finite(const StateSpan& span, std::span<const std::byte> bytes) const {
  if (span.array != kWeightsArray) return;
  const std::int64_t count = std::ssize(bytes) / size_of(span.dtype);
  if (first_non_finite(bytes.data(), count, span.dtype) >= 0) fail_for_updated(manifest_[span.tensor].name);
}

}  // namespace sluice
