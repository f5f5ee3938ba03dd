#include "device/backend.hpp"
#include "device/copy.hpp"
#include "device/memory.hpp"
#include "ops/device/own_kernels.hpp"
#include "ops/runtime/tensor_device.hpp"
#include "other_device/on_device.hpp"
#include "other_device/stream.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <cstring>
#include <thread>

namespace sluice {
namespace {

using test::on_device;

TEST(OtherDevice, libtorch_takes_it_for_another_device) {
  const at::Tensor a = at::arange(12, at::kFloat).view({3, 4});
  const at::Tensor x = on_device(a);
  EXPECT_FALSE(x.is_cpu());
  EXPECT_TRUE(at::equal((x.t().narrow(0, 1, 2) * 2).cpu(), a.t().narrow(0, 1, 2) * 2));
  EXPECT_EQ(x.sum().item<float>(), 66);
}

TEST(OtherDevice, gradients_of_its_graphs_are_computed_on_another_thread) {
  const at::Tensor x = on_device(at::ones({3})).requires_grad_(true);
  std::thread::id thread;
  const at::Tensor y = x * 3;
  y.register_hook([&](const at::Tensor& grad) {
    thread = std::this_thread::get_id();
    return grad;
  });
  const at::Tensor grad = torch::autograd::grad({y.sum()}, {x}).front();
  EXPECT_TRUE(at::equal(grad.cpu(), at::full({3}, 3.0F)));
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST(OtherDevice, a_tensor_of_the_host_in_its_operations_is_an_error_unless_it_has_no_dimensions) {
  const at::Tensor x = on_device(at::ones({3}));
  EXPECT_THROW(static_cast<void>(x + at::ones({3})), c10::Error);
  EXPECT_THROW(static_cast<void>(at::cat({x, at::ones({3})})), c10::Error);
  EXPECT_EQ((x + at::ones({})).sum().item<float>(), 6);
}

TEST(OtherDeviceDeathTest, the_host_cannot_touch_its_memory) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const at::Tensor x = on_device(at::ones({3}));
  const MemoryBlock block = allocate(MemoryKind::kDevice, 100, "a test");
  EXPECT_DEATH(static_cast<void>(*static_cast<volatile float*>(x.data_ptr())), "");
  EXPECT_DEATH(std::memset(block.data(), 1, 100), "");
}

TEST(OtherDevice, copies_bring_bytes_there_and_back) {
  const MemoryBlock block = allocate(MemoryKind::kDevice, 8, "a test");
  EXPECT_TRUE(is_on_device(block.data()));
  const std::uint64_t sent = 0x0123456789abcdef;
  EXPECT_FALSE(is_on_device(&sent));
  std::uint64_t found = 1;
  copy_bytes(&found, block.data(), 8);
  EXPECT_EQ(found, 0U) << "memory begins as zeros";
  copy_bytes(block.data(), &sent, 8);
  copy_bytes(&found, block.data(), 8);
  EXPECT_EQ(found, sent);
}

TEST(OtherDevice, what_is_queued_runs_as_late_as_someone_waits_for_it_or_at_once) {
  const MemoryBlock block = allocate(MemoryKind::kDevice, 8, "a test");
  for (const bool early : {true, false}) {
    other_device::run_at_once(early);
    std::uint64_t found = 1;
    device::begin_copy(&found, block.data(), 8);
    EXPECT_EQ(found, early ? 0U : 1U) << "without waiting for it";
    device::synchronize();
    EXPECT_EQ(found, 0U);
  }
}

TEST(OtherDevice, a_kernel_of_ours_runs_in_its_turn) {
  other_device::run_at_once(false);
  const at::Tensor table = on_device(at::zeros({2, 3}));
  ops::device::add_columns(on_device(at::ones({4, 3})), on_device(at::tensor({0, 1, 1, 1}, at::kLong)), -1,
                           table);
  const at::Tensor twice = table * 2;  // takes what was queued before
  ops::device::add_columns(on_device(at::ones({1, 3})), on_device(at::tensor({0}, at::kLong)), -1, table);
  EXPECT_TRUE(twice.cpu().equal(at::tensor({2.0F, 2.0F, 2.0F, 6.0F, 6.0F, 6.0F}).view({2, 3})));
  EXPECT_TRUE(table.cpu()[0].equal(at::full({3}, 2.0F)));
}

}  // namespace
}  // namespace sluice
