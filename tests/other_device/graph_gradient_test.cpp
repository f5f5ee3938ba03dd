#include "ops/runtime/graph_gradient.hpp"

#include "base/error.hpp"
#include "ops/runtime/tensor_device.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>

namespace sluice::ops {
namespace {

/// The gradient of 3 x, with `visit` called where nodes run.
at::Tensor gradient_with(at::Device device, const std::function<void()>& visit) {
  const at::Tensor x = at::ones({2}).to(device).requires_grad_(true);
  const at::Tensor y = x * 3;
  y.register_hook([&](const at::Tensor& grad) {
    visit();
    return grad;
  });
  return graph_gradient(y, x, at::ones({2}).to(device)).cpu();
}

TEST(OtherDeviceGraph, what_a_node_asks_for_is_done_by_the_thread_that_wants_the_gradient) {
  for (const at::Device device : {at::Device(at::kCPU), device_of(MemoryKind::kDevice)}) {
    std::thread::id node, asked;
    const at::Tensor grad = gradient_with(device, [&] {
      node = std::this_thread::get_id();
      for (int i = 0; i < 3; ++i) run_where_asked([&] { asked = std::this_thread::get_id(); });
    });
    EXPECT_TRUE(grad.equal(at::full({2}, 3.0F)));
    EXPECT_EQ(asked, std::this_thread::get_id());
    EXPECT_EQ(node == asked, device.is_cpu());
  }
}

TEST(OtherDeviceGraph, several_outputs_bring_each_input_its_gradient) {
  for (const at::Device device : {at::Device(at::kCPU), device_of(MemoryKind::kDevice)}) {
    const auto filled = [&](double value) { return at::full({2}, value).to(device); };
    const at::Tensor x = filled(1).requires_grad_(true), z = filled(2).requires_grad_(true);
    const auto gradients = graph_gradients({x * 3 + z, x * z}, {x, z}, {filled(1), filled(10)});
    EXPECT_TRUE(gradients[0].cpu().equal(at::full({2}, 23.0)));
    EXPECT_TRUE(gradients[1].cpu().equal(at::full({2}, 11.0)));
  }
}

TEST(OtherDeviceGraph, errors_of_nodes_and_of_what_they_ask_for_arrive_as_they_are) {
  const auto fails = [] { fail(ExitCode::kNumerics, "as it is"); };
  for (const std::function<void()>& visit :
       {std::function<void()>([&] { run_where_asked(fails); }), std::function<void()>(fails)}) {
    try {
      static_cast<void>(gradient_with(device_of(MemoryKind::kDevice), visit));
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kNumerics);
      EXPECT_EQ(std::string(error.what()), "as it is");
    }
  }
  EXPECT_TRUE(gradient_with(device_of(MemoryKind::kDevice), [] {}).equal(at::full({2}, 3.0F)))
      << "the next one is not harmed";
}

}  // namespace
}  // namespace sluice::ops
