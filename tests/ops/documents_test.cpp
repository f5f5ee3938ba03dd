#include "ops/documents.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace sluice::ops {
namespace {

TEST(Documents, give_each_token_the_position_of_its_first) {
  const at::Tensor begins = at::tensor({0, 0, 1, 0, 1, 1, 0, 0}, at::kByte).view({2, 4});
  const Documents documents = documents_from(begins);
  EXPECT_TRUE(documents.first.equal(at::tensor({0, 0, 2, 2, 0, 1, 1, 1}, at::kLong).view({2, 4})));
  EXPECT_TRUE(documents.packed());
}

TEST(Documents, that_are_not_packed_have_no_positions) { EXPECT_FALSE(Documents().packed()); }

}  // namespace
}  // namespace sluice::ops
