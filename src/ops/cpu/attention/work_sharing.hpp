// Distribution of the heads of attention over threads: there may be fewer heads than threads, and all queries
// of a key head add to its one gradient. Internal to src/ops.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice::ops::cpu::attention_blocks {

/// Calls f(some of the heads) until all are done, with as many heads at a time as there are threads, because
/// the packed data of a head takes memory.
template <class Head, class F>
void for_each_wave(std::span<const Head> heads, F&& f) {
  const auto most = static_cast<std::size_t>(at::get_num_threads());
  for (std::size_t first = 0; first < heads.size(); first += most)
    f(heads.subspan(first, std::min(most, heads.size() - first)));
}

/// Returns the least number of threads for one of `heads` heads.
inline std::int64_t threads_per_head(std::int64_t heads) { return at::get_num_threads() / heads; }

/// Runs the `items` items of each head on all threads: each thread calls make_work() once, and calls its
/// result with (head, item). Threads begin with different heads where possible, then help with others. The
/// items of a head begin in order. A thread holds one object of class `Held` meanwhile.
template <class Held, class MakeWork>
void share_out(std::int64_t heads, std::int64_t items, MakeWork&& make_work) {
  std::vector<std::atomic<std::int64_t>> next(static_cast<std::size_t>(heads));
  const std::int64_t threads = std::min<std::int64_t>(at::get_num_threads(), heads * items);
  at::parallel_for(0, threads, 1, [&](std::int64_t thread, std::int64_t) {
    [[maybe_unused]] const Held held;
    auto work = make_work();
    for (std::int64_t i = 0; i < heads; ++i) {
      const std::int64_t head = (thread * heads / threads + i) % heads;
      auto& next_item = next[static_cast<std::size_t>(head)];
      for (std::int64_t item = next_item++; item < items; item = next_item++) work(head, item);
    }
  });
}

/// Fixes the order in which threads add to each of some blocks. The bits of a sum depend on the order of
/// additions; this order is the same for any number of threads.
class OrderedAccumulation {
 public:
  explicit OrderedAccumulation(std::int64_t blocks) : done_(static_cast<std::size_t>(blocks)) {}

  /// Waits until the first `count` additions to the block are done.
  void wait(std::int64_t block, std::int64_t count) const {
    const auto& done = done_[static_cast<std::size_t>(block)];
    for (std::int32_t now = done.load(); now < count; now = done.load()) done.wait(now);
  }
  /// Marks one more addition to the block as done.
  void end(std::int64_t block) {
    auto& done = done_[static_cast<std::size_t>(block)];
    ++done;
    done.notify_all();
  }
  /// Releases all waiting threads, because some addition will never happen.
  void abandon() {
    constexpr std::int32_t kMoreThanAll = 1 << 30;
    for (auto& done : done_) {
      done |= kMoreThanAll;
      done.notify_all();
    }
  }

 private:
  std::vector<std::atomic<std::int32_t>> done_;
};

}  // namespace sluice::ops::cpu::attention_blocks
