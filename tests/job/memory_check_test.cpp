#include "job/prepare/memory_check.hpp"

#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace sluice {
namespace {

RankMemory weights(std::int64_t bytes) {
  RankMemory memory;
  memory.weights = bytes;
  return memory;
}

const std::array kRanks{weights(10'000'000), weights(51'000'000)};

TEST(GrowthLimits, that_just_suffice_are_accepted) {
  require_growth_limits(kRanks, std::array<std::int64_t, 2>{10'000'000, 51'000'000});
}

TEST(GrowthLimits, of_a_rank_that_needs_more_are_refused_with_what_is_lacking) {
  test::expect_error(ExitCode::kTooLittle,
                     {"rank 1 must hold 51.00 MB", "leaves 50.00 MB", "1.00 MB too little"}, [] {
                       require_growth_limits(kRanks, std::array<std::int64_t, 2>{10'000'000, 50'000'000});
                     });
}

TEST(GrowthLimits, below_what_the_process_takes_are_told_with_all_that_is_lacking) {
  test::expect_error(ExitCode::kTooLittle,
                     {"rank 0 must hold 10.00 MB", "leaves 0 B", "310.00 MB too little"}, [] {
                       require_growth_limits(kRanks, std::array<std::int64_t, 2>{-300'000'000, 0});
                     });
}

}  // namespace
}  // namespace sluice
