// The gated delta rule on the device, where chunks are worked on side by side, against this processor's,
// chunk by chunk.
#include "ops/gated_delta_rule.hpp"

#include "other_device/on_device.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <utility>
#include <vector>

namespace sluice::ops {
namespace {

using test::on_device;
using Tensors = std::vector<at::Tensor>;

/// Decays between e^-2 and 1, and betas between 0 and 1.
Tensors inputs(std::int64_t length) {
  at::manual_seed(length);
  return {at::randn({2, length, 2, 8}), at::randn({2, length, 2, 8}), at::randn({2, length, 4, 6}),
          -2 * at::sigmoid(at::randn({2, length, 4})), at::sigmoid(at::randn({2, length, 4}))};
}

/// The result and the gradients of all inputs.
Tensors run(Tensors in, const Documents& documents, const at::Tensor& d_out) {
  for (at::Tensor& x : in) x = x.detach().requires_grad_(true);
  const at::Tensor out = gated_delta_rule({in[0], in[1], in[2], in[3], in[4]}, documents);
  Tensors all = torch::autograd::grad({out}, in, {d_out});
  all.push_back(out.detach());
  return all;
}

void expect_same(std::int64_t length, const at::Tensor& begins) {
  SCOPED_TRACE(testing::Message() << length << " tokens" << (begins.defined() ? ", packed" : ""));
  const auto documents = [](const at::Tensor& x) { return x.defined() ? documents_from(x) : Documents(); };
  const Tensors in = inputs(length);
  Tensors in_there;
  for (const at::Tensor& x : in) in_there.push_back(on_device(x));
  const at::Tensor d_out = at::randn({2, length, 4, 6});
  const Tensors expected = run(in, documents(begins), d_out),
                found = run(in_there, documents(on_device(begins)), on_device(d_out));
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(at::allclose(found[i].cpu(), expected[i], /*rtol=*/1e-4, /*atol=*/1e-5))
        << "tensor " << i << ": " << (found[i].cpu() - expected[i]).abs().max().item<float>();
}

TEST(OtherDeviceGatedDeltaRule, of_chunks_side_by_side_is_that_of_chunks_in_turn) {
  for (const std::int64_t length : {1, 64, 65, 200, 512, 650}) expect_same(length, {});
}

TEST(OtherDeviceGatedDeltaRule, of_packed_documents) {
  for (const std::int64_t length : {40, 200, 650}) {
    const at::Tensor begins = at::zeros({2, length}, at::kByte);
    for (std::int64_t place = 7; place < length; place += 90) begins[0][place] = 1;
    begins[1][length / 2] = 1;
    expect_same(length, begins);
  }
}

TEST(OtherDeviceGatedDeltaRule, goes_on_from_a_state) {
  const Tensors in = inputs(300);
  at::Tensor state = at::zeros({2, 4, 8, 6}), state_there = on_device(state);
  for (const auto& [begin, count] : {std::pair<int, int>{0, 170}, {170, 1}, {171, 129}}) {
    Tensors part, part_there;
    for (const at::Tensor& x : in) {
      part.push_back(x.narrow(1, begin, count));
      part_there.push_back(on_device(part.back()));
    }
    const auto go_on = [](const Tensors& x, at::Tensor& from) {
      return continue_gated_delta_rule({x[0], x[1], x[2], x[3], x[4]}, from);
    };
    const at::Tensor expected = go_on(part, state), found = go_on(part_there, state_there);
    EXPECT_TRUE(at::allclose(found.cpu(), expected, 1e-4, 1e-5));
    EXPECT_TRUE(at::allclose(state_there.cpu(), state, 1e-4, 1e-5));
  }
}

}  // namespace
}  // namespace sluice::ops
