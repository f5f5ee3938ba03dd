// How many threads a test computes on.
#pragma once

#include <ATen/Parallel.h>

namespace sluice::ops {

/// As many threads as that, for as long as it lives.
class Threads {
 public:
  explicit Threads(int count) { at::set_num_threads(count); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads() { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

}  // namespace sluice::ops
