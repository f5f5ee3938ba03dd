// How threads share the heads of attention on matrix tiles: there may be fewer heads than threads, and a head
// of keys has one gradient, to which all its queries add. Internal to src/ops.
#pragma once

#include "ops/cpu/tiles/block.hpp"

#ifdef SLUICE_TILES

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice::ops::cpu::tiles {

/// Calls f(some of the heads) until all had their turn: as many at a time as there are threads, for what is
/// laid out for a head takes memory.
template <class Head, class F>
void for_each_wave(std::span<const Head> heads, F&& f) {
  const auto most = static_cast<std::size_t>(at::get_num_threads());
  for (std::size_t first = 0; first < heads.size(); first += most)
    f(heads.subspan(first, std::min(most, heads.size() - first)));
}

/// Threads that one of `heads` heads has at least.
inline std::int64_t threads_per_head(std::int64_t heads) { return at::get_num_threads() / heads; }

/// Does the `items` items of each head on all threads: each calls make_work() once, and what that returns
/// with (head, item). Threads begin with a head of their own, as far as there are, and then help with others.
/// The items of a head begin in order.
template <class MakeWork>
void share_out(std::int64_t heads, std::int64_t items, MakeWork&& make_work) {
  std::vector<std::atomic<std::int64_t>> next(static_cast<std::size_t>(heads));
  const std::int64_t threads = std::min<std::int64_t>(at::get_num_threads(), heads * items);
  at::parallel_for(0, threads, 1, [&](std::int64_t thread, std::int64_t) {
    const Registers registers;
    auto work = make_work();
    for (std::int64_t i = 0; i < heads; ++i) {
      const std::int64_t head = (thread * heads / threads + i) % heads;
      auto& next_item = next[static_cast<std::size_t>(head)];
      for (std::int64_t item = next_item++; item < items; item = next_item++) work(head, item);
    }
  });
}

/// Who may add to each of some blocks next. Sums depend on the order of what is added: this one is the same
/// for any number of threads.
class OrderedAccumulation {
 public:
  explicit OrderedAccumulation(std::int64_t blocks) : done_(static_cast<std::size_t>(blocks)) {}

  /// Waits for the first `count` additions to the block.
  void wait(std::int64_t block, std::int64_t count) const {
    const auto& done = done_[static_cast<std::size_t>(block)];
    for (std::int32_t now = done.load(); now < count; now = done.load()) done.wait(now);
  }
  /// One more addition is done.
  void end(std::int64_t block) {
    auto& done = done_[static_cast<std::size_t>(block)];
    ++done;
    done.notify_all();
  }
  /// Nobody waits any longer: some addition will never come.
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

}  // namespace sluice::ops::cpu::tiles

#endif
