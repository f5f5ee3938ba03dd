// Work that several threads do, with results in the order of the inputs.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::corpus {

/// Ordered work: one thread makes inputs, several threads turn each into an output, and take() returns
/// outputs in order. Memory holds a bounded number of inputs and outputs. An exception of a thread is thrown
/// by take(), in its place in the order.
template <class Input, class Output>
class OrderedWork {
 public:
  using Make = std::function<std::optional<Input>()>;
  using Turn = std::function<Output(const Input&)>;

  /// One thread calls `make` until it returns nothing; each working thread calls `turner` once, for the
  /// function with which it works. Objects to which they refer must outlive this object.
  OrderedWork(Make make, const std::function<Turn()>& turner, std::size_t threads) : most_(3 * threads) {
    threads_.emplace_back([this, make = std::move(make)] { produce(make); });
    for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this, turn = turner()] { work(turn); });
  }
  OrderedWork(const OrderedWork&) = delete;
  OrderedWork& operator=(const OrderedWork&) = delete;
  ~OrderedWork() {
    {
      const std::lock_guard lock(mutex_);
      is_stopped_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  /// The next output; nothing after the last one.
  [[nodiscard]] std::optional<Output> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(
        lock, [&] { return (jobs_.empty() && is_complete_) || (!jobs_.empty() && jobs_.front()->is_done); });
    if (jobs_.empty()) return std::nullopt;
    const std::shared_ptr<Job> job = jobs_.front();
    jobs_.pop_front();
    if (next_ > 0) --next_;
    lock.unlock();
    changed_.notify_all();
    if (job->failure) std::rethrow_exception(job->failure);
    return std::move(job->output);
  }

 private:
  struct Job {
    std::optional<Input> input;
    std::optional<Output> output;
    std::exception_ptr failure;
    bool is_done = false;
  };

  void produce(const Make& make) {
    bool is_last = false;
    while (!is_last) {
      auto job = std::make_shared<Job>();
      try {
        job->input = make();
        is_last = !job->input;
      } catch (...) {
        job->failure = std::current_exception();
        job->is_done = is_last = true;
      }
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return is_stopped_ || jobs_.size() < most_; });
      if (is_stopped_) return;
      if (job->input || job->failure) jobs_.push_back(std::move(job));
      is_complete_ = is_last;
      lock.unlock();
      changed_.notify_all();
    }
  }

  void work(const Turn& turn) {
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return is_stopped_ || next_ < jobs_.size() || is_complete_; });
      if (is_stopped_ || next_ == jobs_.size()) return;
      const std::shared_ptr<Job> job = jobs_[next_++];
      if (job->is_done) continue;
      lock.unlock();
      try {
        job->output = turn(*job->input);
      } catch (...) {
        job->failure = std::current_exception();
      }
      job->input.reset();
      lock.lock();
      job->is_done = true;
      lock.unlock();
      changed_.notify_all();
    }
  }

  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> jobs_;  ///< jobs that were made and not taken yet, in order
  std::size_t next_ = 0;                   ///< index into jobs_ of the first job that no thread has begun
  bool is_complete_ = false;               ///< whether all jobs have been added
  bool is_stopped_ = false;                ///< whether no thread takes any more jobs
  std::vector<std::thread> threads_;
};

}  // namespace sluice::corpus
