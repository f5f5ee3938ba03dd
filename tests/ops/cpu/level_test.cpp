#include "ops/cpu/level.hpp"

#include <gtest/gtest.h>

#include <string_view>
#include <utility>

namespace sluice::ops::cpu {
namespace {

TEST(Level, follows_the_values_that_oneDNN_knows) {
  constexpr std::pair<std::string_view, Level> kValues[] = {{"", Level::kTileRegisters},
                                                            {"ALL", Level::kTileRegisters},
                                                            {"DEFAULT", Level::kTileRegisters},
                                                            {"AVX10_1_512_AMX_FP16", Level::kTileRegisters},
                                                            {"AVX512_CORE_AMX", Level::kTileRegisters},
                                                            {"AVX10_1_512", Level::kBFloat16},
                                                            {"AVX512_CORE_FP16", Level::kBFloat16},
                                                            {"AVX512_CORE_BF16", Level::kBFloat16},
                                                            {"AVX512_CORE_VNNI", Level::kVnni},
                                                            {"AVX512_CORE", Level::kAvx512},
                                                            {"AVX2_VNNI_2", Level::kAvx2},
                                                            {"AVX2_VNNI", Level::kAvx2},
                                                            {"AVX2", Level::kAvx2},
                                                            {"AVX", Level::kAvx},
                                                            {"SSE41", Level::kAny}};
  for (const auto& [value, level] : kValues) EXPECT_EQ(level_allowed_by(value), level) << value;
}

}  // namespace
}  // namespace sluice::ops::cpu
