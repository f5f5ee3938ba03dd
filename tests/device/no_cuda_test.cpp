#include "base/error.hpp"
#include "device/memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(NoCuda, device_memory_is_refused_with_what_the_build_lacks) {
  try {
    const MemoryBlock block = allocate(MemoryKind::kDevice, 1, "a test");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadConfig);
    EXPECT_THAT(error.what(), testing::HasSubstr("SLUICE_CUDA=ON"));
  }
}

}  // namespace
}  // namespace sluice
