#include "ops/runtime/graph_gradient.hpp"

#include "base/clock.hpp"
#include "ops/runtime/node.hpp"
#include "ops/runtime/progress_hook.hpp"

#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>
#include <torch/autograd.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace sluice::ops {
namespace {

/// Longest time between two polls for messages in flight.
constexpr Seconds kBetweenPolls{500e-6};

/// Requests of one thread to another, which serves them while it waits.
class Requests {
 public:
  /// Serves actions on this thread until finish(); then throws the first error of an action.
  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      while (!changed_.wait_for(lock, kBetweenPolls, [&] { return action_ != nullptr || finished_; })) {
        lock.unlock();
        poll_progress();
        lock.lock();
      }
      if (action_ == nullptr) break;
      const std::function<void()>* const action = action_;
      lock.unlock();
      const std::exception_ptr error = error_of(*action);
      lock.lock();
      if (!error_) error_ = error;
      failed_ = error != nullptr;
      action_ = nullptr;
      changed_.notify_all();
    }
    if (error_) std::rethrow_exception(error_);
  }

  /// Lets the serving thread run `action`, and waits for it. Called on another thread; one call at a time.
  void ask(const std::function<void()>& action) {
    std::unique_lock lock(mutex_);
    action_ = &action;
    changed_.notify_all();
    changed_.wait(lock, [&] { return action_ == nullptr; });
    if (failed_) std::rethrow_exception(error_);
  }

  void finish() {
    const std::lock_guard lock(mutex_);
    finished_ = true;
    changed_.notify_all();
  }

  [[nodiscard]] bool serves_this_thread() const { return server_ == std::this_thread::get_id(); }

 private:
  static std::exception_ptr error_of(const std::function<void()>& action) {
    try {
      action();
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  const std::thread::id server_ = std::this_thread::get_id();
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* action_ = nullptr;
  std::exception_ptr error_;
  bool failed_ = false, finished_ = false;
};

/// Requests of the one graph_gradient() of this process that waits for another thread.
std::atomic<Requests*> requests = nullptr;

struct FixedGradient : node::Function<FixedGradient> {
  static at::Tensor forward(node::AutogradContext* context, const at::Tensor& x, const at::Tensor& gradient) {
    context->saved_data["gradient"] = gradient;
    return at::empty_like(x);
  }
  static node::variable_list backward(node::AutogradContext* context, const node::variable_list&) {
    return {context->saved_data["gradient"].toTensor(), {}};
  }
};

}  // namespace

at::Tensor graph_gradient(const at::Tensor& output, const at::Tensor& input, const at::Tensor& d_output,
                          GraphAfter after) {
  return graph_gradients({output}, {input}, {d_output}, after).front();
}

std::vector<at::Tensor> graph_gradients(const std::vector<at::Tensor>& outputs,
                                        const std::vector<at::Tensor>& inputs,
                                        const std::vector<at::Tensor>& d_outputs, GraphAfter after) {
  const bool has_one = outputs.size() == 1 && inputs.size() == 1;
  if (has_one && outputs.front().is_same(inputs.front())) return d_outputs;
  const auto gradients_here = [&] {
    return torch::autograd::grad(outputs, inputs, d_outputs, after == GraphAfter::kKept);
  };
  if (outputs.front().is_cpu()) return gradients_here();
  std::vector<at::Tensor> gradients;
  std::exception_ptr error;
  Requests served;
  requests = &served;
  std::thread worker([&] {
    try {
      const c10::DeviceGuard device(outputs.front().device());
      gradients = gradients_here();
    } catch (...) {
      error = std::current_exception();
    }
    served.finish();
  });
  std::exception_ptr own_error;
  try {
    served.serve();
  } catch (...) {
    own_error = std::current_exception();
  }
  worker.join();
  requests = nullptr;
  if (own_error) std::rethrow_exception(own_error);
  if (error) std::rethrow_exception(error);
  return gradients;
}

at::Tensor with_gradient(const at::Tensor& x, const at::Tensor& gradient) {
  return FixedGradient::apply(x, gradient);
}

void run_where_asked(const std::function<void()>& action) {
  Requests* const served = requests;
  if (served == nullptr || served->serves_this_thread())
    action();
  else
    served->ask(action);
}

}  // namespace sluice::ops
