// How near the optimizers' updates come to the rate of memory, in each mode of keeping state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::bench {

struct UpdateRate {
  std::string name;  ///< kind, state / master / gradients
  int threads = 0;
  double bytes =
      0;  ///< of an element, each array read and written once; by Adafactor in each of three passes
  double seconds = 0;  ///< of a pass over all elements
  double bytes_per_second = 0;
  double memory_rate = 0;  ///< bytes per second of plain passes beside these, the better of two
  double cycles = 0;       ///< of a core for an element
  double bar = 0;          ///< of bytes_per_second over memory_rate

  [[nodiscard]] double share() const { return bytes_per_second / memory_rate; }
};

/// Every mode over `elements` weights, the best of `rounds` passes, in turn with those over plain memory. Leaves
/// LibTorch with `threads` threads.
[[nodiscard]] std::vector<UpdateRate> measure_updates(int threads, std::int64_t elements, int rounds);

}  // namespace sluice::bench
