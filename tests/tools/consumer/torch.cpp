// Prints on how many threads LibTorch computes for Sluice: that its libraries which need LibTorch link.
#include "ops/runtime/library.hpp"

#include <cstdio>

int main() {
  sluice::ops::start_library(1);
  std::printf("LibTorch on %d thread\n", sluice::ops::thread_count());
}
