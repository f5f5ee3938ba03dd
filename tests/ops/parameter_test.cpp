#include "ops/parameter.hpp"

#include "ops/op_check.hpp"

#include <gtest/gtest.h>

namespace sluice::ops {
namespace {

TEST(InGraph, a_weight_takes_part_in_formulas_and_its_gradient_is_added) {
  for (const at::ScalarType dtype : kDTypes)
    expect_matches([](const Tensors& in, const Parameters& w) { return in[0] * in_graph(w[0], in[0]).exp(); },
                   [](const Tensors& in, const Tensors& w) { return in[0] * w[0].exp(); },
                   {numbers({5, 7}, dtype)}, {parameter(numbers({7}, dtype, 2))});
}

TEST(InGraph, is_a_copy_so_the_weights_memory_may_be_bound_anew) {
  const Parameter weight = parameter(numbers({3}));
  const at::Tensor copy = in_graph(weight, numbers({1}).requires_grad_());
  weight.value.zero_();
  EXPECT_TRUE(copy.equal(numbers({3})));
}

}  // namespace
}  // namespace sluice::ops
