#include "ops/runtime/progress_hook.hpp"

#include "base/error.hpp"

#include <utility>

namespace sluice::ops {
namespace {

/// Least time between two calls of the hook, each of which takes microseconds.
constexpr Seconds kBetween{200e-6};

thread_local ProgressHook* here = nullptr;

}  // namespace

ProgressHook::ProgressHook(std::function<void()> turn) : turn_(std::move(turn)) {
  SLUICE_ASSERT(here == nullptr, "a second ProgressHook on one thread");
  here = this;
}

ProgressHook::~ProgressHook() { here = nullptr; }

void poll_progress() {
  if (here == nullptr || SteadyClock::now() - here->last_ < kBetween) return;
  here->turn_();
  here->last_ = SteadyClock::now();
}

}  // namespace sluice::ops
