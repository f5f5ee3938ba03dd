#include "ops/cpu/tensor_heap.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/core/CPUAllocator.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

namespace sluice::ops::cpu {
namespace {

constexpr std::int64_t kMebibyte = 1 << 20;

class TensorHeap : public testing::Test {
 protected:
  TensorHeap() { use_tensor_heap(); }
};

#ifndef __SANITIZE_ADDRESS__  // whose heap is in use then, and holds freed memory back
TEST_F(TensorHeap, freed_tensors_leave_room_for_others_of_their_size) {
  const auto bytes = [](std::int64_t count) { return at::empty({count}, at::kByte); };
  std::vector<at::Tensor> freed, kept;
  for (int i = 0; i < 8; ++i) {
    freed.push_back(bytes(kMebibyte));
    kept.push_back(bytes(kMebibyte / 4));
  }
  std::set<const void*> places;
  for (const at::Tensor& tensor : freed) places.insert(tensor.data_ptr());
  freed.clear();
  const at::Tensor small = bytes(1000);  // settles elsewhere
  for (int i = 0; i < 8; ++i) {
    freed.push_back(bytes(kMebibyte));
    EXPECT_EQ(places.erase(freed.back().data_ptr()), 1U) << i;
  }
}

#endif

TEST_F(TensorHeap, tensors_of_all_sizes_are_aligned_and_their_own) {
  std::vector<at::Tensor> tensors;
  for (std::int64_t size = 1; size < 8 * kMebibyte; size = size * 3 + 1)
    tensors.push_back(at::full({size}, std::ssize(tensors), at::kByte));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensors[i].data_ptr()) % 64, 0U) << tensors[i].numel();
    EXPECT_TRUE(tensors[i].eq(static_cast<std::int64_t>(i)).all().item<bool>()) << tensors[i].numel();
  }
}

/// As LibTorch does within operations, some of them on ARM processors alone.
TEST_F(TensorHeap, memory_without_a_tensor_comes_from_it_and_goes_back) {
  c10::Allocator& allocator = *c10::GetCPUAllocator();
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1000}, std::size_t{1} << 20}) {
    void* const data = allocator.raw_allocate(bytes);
    if (data != nullptr) std::memset(data, 1, bytes);
    allocator.raw_deallocate(data);
  }
}

TEST_F(TensorHeap, threads_may_share_it) {
  const auto work = [](std::int64_t mark) {
    for (int i = 0; i < 300; ++i) {
      const at::Tensor mine = at::full({32 * 1024 + 1024 * mark}, mark, at::kByte);
      EXPECT_TRUE(mine.eq(mark).all().item<bool>());
    }
  };
  std::vector<std::jthread> threads;
  for (std::int64_t mark = 0; mark < 4; ++mark) threads.emplace_back(work, mark);
}

}  // namespace
}  // namespace sluice::ops::cpu
