#include "ops/cpu/level.hpp"
#include "ops/runtime/library.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::ops::cpu {
namespace {

// Of the program whose registers are an imitation: its other tests say what is computed on them.
TEST(TileRegisters, are_used_wherever_products_are_laid_out_in_tiles) {
  EXPECT_EQ(has_tile_registers(), has_tiles());
  if (has_tiles()) {
    EXPECT_THAT(means_text(), testing::HasSubstr("on tile registers (AMX)"));
  }
}

}  // namespace
}  // namespace sluice::ops::cpu
