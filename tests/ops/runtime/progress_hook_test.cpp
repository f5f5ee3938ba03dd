#include "ops/runtime/progress_hook.hpp"

#include "ops/attention.hpp"
#include "ops/cpu/level.hpp"
#include "ops/cpu/onednn_matmul.hpp"
#include "ops/linear.hpp"
#include "ops/op_check.hpp"
#include "ops/threads.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

namespace sluice::ops {
namespace {

constexpr std::int64_t kRows = 2048, kWidth = 1024;

/// Many milliseconds of products.
void compute(at::ScalarType dtype) {
  static_cast<void>(linear(numbers({kRows, kWidth}, dtype), Parameter{numbers({kRows, kWidth}, dtype), {}}));
}

/// Turns within one operation, where it is ours all through; on one thread, as another one might do all the work while
/// this one waits for a core.
void expect_turns_within(const std::function<void()>& operation) {
  const Threads one(1);
  int turns = 0;
  const ProgressHook meanwhile([&] { ++turns; });
  operation();
  EXPECT_GE(turns, cpu::has_tiles() || !cpu::onednn_has_products() ? 2 : 1);
}

TEST(ProgressHook, long_products_poll_progresss) {
  expect_turns_within([] { compute(at::kBFloat16); });
}

TEST(ProgressHook, long_attention_gives_turns_forward_and_backward) {
  const at::Tensor q = numbers({1, kRows, 4, 64}, at::kBFloat16).requires_grad_();
  const at::Tensor k = numbers({1, kRows, 1, 64}, at::kBFloat16),
                   v = numbers({1, kRows, 1, 64}, at::kBFloat16);
  at::Tensor out;
  expect_turns_within([&] { out = attention(q, k, v, {0.125}); });
  expect_turns_within([&] { out.sum().backward(); });
}

TEST(ProgressHook, turns_belong_to_one_thread_and_end_with_it) {
  int turns = 0;
  {
    const ProgressHook meanwhile([&] { ++turns; });
    std::thread([] { compute(at::kFloat); }).join();
    EXPECT_EQ(turns, 0);
  }
  compute(at::kFloat);
  EXPECT_EQ(turns, 0);
}

TEST(ProgressHook, asking_often_gives_few_turns) {
  int turns = 0;
  const Stopwatch watch;
  const ProgressHook meanwhile([&] { ++turns; });
  for (int i = 0; i < 100'000; ++i) poll_progress();
  EXPECT_LE(turns, 1 + watch.seconds() / 200e-6);
}

TEST(ProgressHook, what_goes_wrong_in_a_turn_ends_the_computation) {
  const ProgressHook meanwhile([] { throw std::runtime_error("a rank is gone"); });
  EXPECT_THROW(compute(at::kBFloat16), std::runtime_error);
}

}  // namespace
}  // namespace sluice::ops
