#include "ops/meanwhile.hpp"

#include "base/error.hpp"

#include <utility>

namespace sluice::ops {
namespace {

/// A turn costs microseconds.
constexpr Seconds kBetween{200e-6};

thread_local Meanwhile* here = nullptr;

}  // namespace

Meanwhile::Meanwhile(std::function<void()> turn) : turn_(std::move(turn)) {
  SLUICE_ASSERT(here == nullptr, "a second Meanwhile on one thread");
  here = this;
}

Meanwhile::~Meanwhile() { here = nullptr; }

void give_turn() {
  if (here == nullptr || SteadyClock::now() - here->last_ < kBetween) return;
  here->turn_();
  here->last_ = SteadyClock::now();
}

}  // namespace sluice::ops
