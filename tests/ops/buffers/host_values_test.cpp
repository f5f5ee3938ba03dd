#include "ops/buffers/host_values.hpp"

#include "ops/op_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::ops {
namespace {

TEST(HostValues, are_the_elements_in_order_whatever_their_strides) {
  const at::Tensor x = at::tensor({1, 2, 3, 4, 5, 6}, at::kLong).view({2, 3});
  EXPECT_THAT(host_values<std::int64_t>(x.t()), testing::ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(host_values<float>(x.to(at::kBFloat16)[1]), testing::ElementsAre(4, 5, 6));
  EXPECT_TRUE(host_values<double>(at::empty({0})).empty());
}

TEST(HostValues, come_back_into_a_tensor) {
  const at::Tensor x = numbers({2, 3});
  const at::Tensor copy = at::zeros({2, 3});
  set_values<float>(copy, host_values<float>(x));
  EXPECT_TRUE(copy.equal(x));
}

}  // namespace
}  // namespace sluice::ops
