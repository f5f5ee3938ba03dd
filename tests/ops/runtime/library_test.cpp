#include "ops/runtime/library.hpp"

#include "base/error.hpp"
#include "ops/op_check.hpp"

#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace sluice::ops {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Library, its_errors_come_without_their_backtrace) {
  try {
    with_plain_errors([] { static_cast<void>(at::zeros({2, 3}).matmul(at::zeros({2, 3}))); });
    FAIL() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kInternal);
    EXPECT_THAT(e.what(), HasSubstr("LibTorch: "));
    EXPECT_THAT(e.what(), HasSubstr("shapes"));
    EXPECT_THAT(e.what(), Not(HasSubstr("frame #")));
  }
}

TEST(Library, says_what_it_computes_with) {
  {
    const Threads threads(1);
    EXPECT_THAT(means_text(), testing::MatchesRegex("1 thread, products of bfloat16 [a-z].+"));
    EXPECT_EQ(means_text(), "1 thread, " + products_text());
  }
  EXPECT_THAT(few_products_text(), testing::MatchesRegex("of a few tokens with .*codes row by row; int8 .+"));
  const Threads threads(2);
  EXPECT_THAT(means_text(), testing::StartsWith("2 threads, "));
}

TEST(Library, names_the_blas_in_the_process) {
  EXPECT_THAT(blas_text(), testing::AnyOf(testing::StartsWith("OpenBLAS on "), testing::Eq("another BLAS")));
  EXPECT_EQ(blas_has_own_threads(), blas_text() == "OpenBLAS on threads of its own");
}

TEST(Library, measures_its_product_rate_once_for_each_number_of_threads) {
  const auto rate = [](int threads) {
    const Threads set(threads);
    return product_rate(DType::kFloat32, MemoryKind::kPrivate);
  };
  const double first = rate(1), other = rate(2);
  EXPECT_GT(first, 0);
  EXPECT_NE(other, first);
  EXPECT_EQ(rate(1), first);
  EXPECT_EQ(rate(2), other);
}

TEST(Library, errors_of_others_pass_as_they_are) {
  EXPECT_THROW(with_plain_errors([] { throw std::out_of_range("mine"); }), std::out_of_range);
  EXPECT_THROW(with_plain_errors([] { fail(ExitCode::kBadData, "mine"); }), Error);
}

}  // namespace
}  // namespace sluice::ops
