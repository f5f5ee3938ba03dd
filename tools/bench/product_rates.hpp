// Rates of bfloat16 products with the shapes of an expert and of a projection.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::bench {

/// A product and a float32 product of copies of its factors, at their best; a second is a processor's, on all threads.
struct ProductRate {
  std::string name;
  int threads = 1;
  std::int64_t rows = 0;
  double flop_per_second = 0, copies_flop_per_second = 0;
  double codes_flop_per_second = 0;  ///< of the same with the weight in INT4, by groups of 32; 0: none
  double float_rate = 0;             ///< FLOP/s of the best float32 product of 2048^3 among these
};

/// Measures all products of so many rows, ours, that of copies and that from codes taking turns, the best of `rounds`, with
/// matrices that no cache keeps.
[[nodiscard]] std::vector<ProductRate> measure_products(int threads, std::int64_t rows, int rounds);

}  // namespace sluice::bench
