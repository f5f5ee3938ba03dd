#include "device/devices.hpp"
#include "nccl_stand_in/device_memory.hpp"
#include "support/expect_error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

namespace sluice {
namespace {

class NcclStandInDevice : public testing::Test {
 protected:
  void TearDown() override {
    unsetenv("SLUICE_STAND_IN_GPUS");
    unsetenv("CUDA_VISIBLE_DEVICES");
  }
};

TEST_F(NcclStandInDevice, gpus_are_listed_in_order_with_names_of_their_own) {
  setenv("SLUICE_STAND_IN_GPUS", "H100,H200", 1);
  const Gpus gpus = list_gpus();
  ASSERT_EQ(gpus.list.size(), 2U);
  EXPECT_EQ(gpus.lack, "");
  EXPECT_EQ(gpus.list[0].name, "H100");
  EXPECT_EQ(gpus.list[1].name, "H200");
  EXPECT_EQ(gpus.list[0].capability, "9.0");
  EXPECT_NE(gpus.list[0].identity, gpus.list[1].identity);
  EXPECT_GT(gpus.list[0].memory_bytes, 0);
}

TEST_F(NcclStandInDevice, a_machine_without_gpu_or_driver_says_why) {
  setenv("SLUICE_STAND_IN_GPUS", "", 1);
  EXPECT_TRUE(list_gpus().list.empty());
  EXPECT_THAT(list_gpus().lack, testing::HasSubstr("no CUDA-capable device"));
  setenv("SLUICE_STAND_IN_GPUS", "no driver", 1);
  EXPECT_THAT(list_gpus().lack, testing::HasSubstr("driver"));
  test::expect_error(ExitCode::kTooLittle, {"GPU 0", "driver"}, [] { use_gpu(0); });
}

TEST_F(NcclStandInDevice, only_visible_ones_count) {
  setenv("CUDA_VISIBLE_DEVICES", "3", 1);
  EXPECT_EQ(list_gpus().list.size(), 1U);
  test::expect_error(ExitCode::kTooLittle, {"GPU 1"}, [] { use_gpu(1); });
}

TEST_F(NcclStandInDevice, a_stream_copies_in_order_beside_the_host) {
  DeviceStream stream;
  std::vector<int> numbers(100'000);
  std::iota(numbers.begin(), numbers.end(), 0);
  const test::OnDevice<int> first(stream, numbers), second(stream, std::vector<int>(numbers.size()));
  stream.copy(second.data(), first.data(), first.bytes());
  EXPECT_EQ(second.values(), numbers);
}

TEST_F(NcclStandInDevice, device_memory_is_zero_and_its_end_is_told) {
  const MemoryBlock block = allocate(MemoryKind::kDevice, 4096, "a test");
  EXPECT_EQ(block.kind(), MemoryKind::kDevice);
  DeviceStream stream;
  std::vector<char> seen(4096, 'x');
  stream.copy(seen.data(), block.data(), 4096);
  test::finish(stream);
  EXPECT_EQ(seen, std::vector<char>(4096, 0));
  test::expect_error(ExitCode::kTooLittle, {"the device is full", "a test"}, [] {
    static_cast<void>(allocate(MemoryKind::kDevice, std::int64_t{1} << 40, "a test"));
  });
}

TEST_F(NcclStandInDevice, the_version_is_told) {
  EXPECT_TRUE(has_cuda());
  EXPECT_THAT(cuda_version_text(), testing::StartsWith("CUDA 1"));
}

}  // namespace
}  // namespace sluice
