#include "checkpoint/span_reader.hpp"

#include "base/error.hpp"
#include "device/copy.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace sluice {
namespace {

bool is_saved(const StateSpan& span) { return !span.is_copy && span.bytes() > 0; }

/// Calls `visit` with the first span of each unit, and the first span after it.
template <class Visit>
void for_each_unit(std::span<const StateSpan> spans, const Visit& visit) {
  for (std::size_t begin = 0, end = 0; begin < spans.size(); begin = end) {
    while (end < spans.size() && spans[end].unit == spans[begin].unit) ++end;
    visit(begin, end);
  }
}

}  // namespace

std::int64_t largest_unit_bytes(std::span<const StateSpan> spans) {
  std::int64_t most = 0;
  for_each_unit(spans, [&](std::size_t begin, std::size_t end) {
    std::int64_t bytes = 0;
    for (const StateSpan& span : spans.subspan(begin, end - begin))
      bytes += is_saved(span) ? span.bytes() : 0;
    most = std::max(most, bytes);
  });
  return most;
}

SpanReader::SpanReader(std::vector<StateSpan> spans, double limit_seconds, const ShardArena* paged)
    : spans_(std::move(spans)), limit_seconds_(limit_seconds), paged_(paged) {
  std::erase_if(spans_, [](const StateSpan& span) { return !is_saved(span); });
  for_each_unit(spans_, [&](std::size_t begin, std::size_t end) {
    const auto unit = static_cast<std::size_t>(spans_[begin].unit);
    if (units_.size() <= unit) units_.resize(unit + 1);
    SLUICE_ASSERT(units_[unit].end == 0, "the spans of unit {} lie apart", unit);
    units_[unit] = {begin, end};
  });
}

bool SpanReader::next(std::int64_t bytes, const Use& use) {
  if (paged_ != nullptr) {
    if (room_.bytes() == 0) room_ = allocate(MemoryKind::kPrivate, bytes, "state that is saved from a disk");
    bytes -= PagedFile::peek_room(0);
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !wants_to_copy_; });
  if (stopped_ || next_ == spans_.size()) return false;
  const StateSpan& span = spans_[next_];
  const std::int64_t count = std::min(bytes, span.bytes() - next_bytes_);
  const std::byte* data = span.data + next_bytes_;
  is_reading_ = true;
  lock.unlock();
  if (paged_ != nullptr)
    data = settled_bytes(*paged_, data, count, {room_.data(), static_cast<std::size_t>(room_.bytes())});
  const HostBytes here(data, count);
  use(span, {here.data(), static_cast<std::size_t>(count)});
  lock.lock();
  is_reading_ = false;
  next_bytes_ += count;
  ++reads_;
  if (next_bytes_ == spans_[next_].bytes()) {
    ++next_;
    next_bytes_ = 0;
  }
  if (next_ == copied_end_) copied_end_ = 0;
  lock.unlock();
  changed_.notify_all();
  return true;
}

void SpanReader::keep(int number) {
  if (static_cast<std::size_t>(number) >= units_.size()) return;
  const Unit unit = units_[static_cast<std::size_t>(number)];
  std::unique_lock lock(mutex_);
  if (is_read(unit) || is_copied(unit)) return;
  wait_for(lock, [&] { return copied_end_ == 0 || is_read(unit); });
  if (is_read(unit)) return;
  wants_to_copy_ = true;
  wait_for(lock, [&] { return !is_reading_ || stopped_; });
  if (!is_read(unit)) copy(unit);
  wants_to_copy_ = false;
  lock.unlock();
  changed_.notify_all();
}

void SpanReader::copy(const Unit& unit) {
  if (copy_.bytes() == 0)
    copy_ =
        allocate(MemoryKind::kPrivate, largest_unit_bytes(spans_), "the unit that changes while it is saved");
  std::byte* out = copy_.data();
  for (std::size_t i = std::max(unit.begin, next_); i < unit.end; ++i) {
    StateSpan& span = spans_[i];
    copy_bytes(out, span.data, span.bytes());
    span.data = out;
    out += span.bytes();
  }
  copied_end_ = unit.end;
}

void SpanReader::wait_for(std::unique_lock<std::mutex>& lock, const std::function<bool()>& condition) {
  const std::chrono::duration<double> limit(limit_seconds_);
  while (!condition()) {
    const std::int64_t reads = reads_;
    const auto moved = [&] { return condition() || reads_ != reads; };
    if (changed_.wait_for(lock, limit, moved)) continue;
    wants_to_copy_ = false;
    fail({ExitCode::kIo, "io.stalled"},
         "nothing of the step that is being saved was written for {:g} s (deadline.save_seconds)",
         limit_seconds_);
  }
}

bool SpanReader::stopped() {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

void SpanReader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
}

}  // namespace sluice
