// The compute stream of the device that is none. What is queued runs as late as anyone could wait for it, or,
// with OTHER_DEVICE_STREAM=early in the environment, at once: code that is right gives the same numbers
// either way.
#pragma once

#include <functional>

namespace sluice::other_device {

void queue(std::function<void()> work);

/// Runs all that was queued.
void finish();

/// As the environment says, unless a test has said otherwise.
void run_at_once(bool early);

}  // namespace sluice::other_device
