// What LibTorch has for CUDA's tensors alone against the formulas beside it, on a GPU.
#include "ops/device/cuda_library.hpp"
#include "ops/device/formulas.hpp"
#include "ops/device/own_kernels.hpp"
#include "ops/runtime/tensor_device.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace sluice::ops::device {
namespace {

at::Tensor numbers(at::IntArrayRef sizes) {
  return at::randn(sizes, options_in(MemoryKind::kDevice, at::kBFloat16));
}

/// The largest difference, in the largest number of what is expected.
void expect_near(const at::Tensor& found, const at::Tensor& expected, const char* what) {
  const double distance = (found.to(at::kDouble) - expected.to(at::kDouble)).abs().max().item<double>();
  EXPECT_LE(distance, 0.02 * expected.to(at::kDouble).abs().max().item<double>()) << what;
}

at::Tensor begins_of_documents(std::int64_t sequences, std::int64_t length) {
  const at::Tensor begins = at::zeros({sequences, length}, options_in(MemoryKind::kDevice, at::kByte));
  for (std::int64_t place = 3; place < length; place += 130) begins.select(1, place).fill_(1);
  return begins;
}

struct Attention {
  AttentionInputs in;
  at::Tensor d_out;

  Attention(std::int64_t width, bool packed)
      : in{.q = numbers({2, 700, 8, width}),
           .k = numbers({2, 700, 2, width}),
           .v = numbers({2, 700, 2, width}),
           .scale = 0.1},
        d_out(numbers({2, 700, 8, width})) {
    if (packed) in.documents = documents_from(begins_of_documents(2, 700));
  }
  /// Of both ways.
  struct Result {
    AttentionRecord made;
    AttentionGradients d;
    explicit Result(const Attention& a)
        : made{at::empty_like(a.in.q), at::empty({2, 8, 700}, a.in.q.options().dtype(at::kFloat))},
          d{at::empty_like(a.in.q), at::empty_like(a.in.k), at::empty_like(a.in.v)} {}
  };
};

TEST(GpuLibrary, attention_and_its_gradients_are_those_of_the_formula_and_the_same_each_time) {
  at::manual_seed(1);
  for (const std::int64_t width : {64, 128, 256})
    for (const bool packed : {false, true}) {
      SCOPED_TRACE(testing::Message() << "width " << width << (packed ? ", packed" : ""));
      const Attention a(width, packed);
      Attention::Result found(a), again(a), expected(a);
      formulas::attention(a.in, expected.made);
      formulas::attention_backward(a.in, expected.made, a.d_out, expected.d);
      for (Attention::Result* result : {&found, &again}) {
        ASSERT_TRUE(cuda_library::attention(a.in, result->made));
        ASSERT_TRUE(cuda_library::attention_backward(a.in, result->made, a.d_out, result->d));
      }
      expect_near(found.made.out, expected.made.out, "out");
      expect_near(found.made.logsumexp, expected.made.logsumexp, "logsumexp");
      expect_near(found.d.q, expected.d.q, "gradient of q");
      expect_near(found.d.k, expected.d.k, "gradient of k");
      expect_near(found.d.v, expected.d.v, "gradient of v");
      EXPECT_TRUE(again.d.q.equal(found.d.q) && again.d.k.equal(found.d.k) && again.d.v.equal(found.d.v));
    }
}

TEST(GpuLibrary, products_of_bfloat16_into_float32) {
  at::manual_seed(2);
  const at::Tensor a = numbers({300, 200}), b = numbers({500, 200}),
                   found = at::zeros({300, 500}, options_in(MemoryKind::kDevice, at::kFloat)),
                   expected = at::zeros_like(found);
  for (const Into into : {Into::kReplace, Into::kAdd}) {
    ASSERT_TRUE(cuda_library::matmul(found, a, b.t(), into));
    formulas::matmul(expected, a, b.t(), into);
    expect_near(found, expected, into == Into::kAdd ? "added" : "replaced");
  }
}

TEST(GpuLibrary, grouped_products) {
  at::manual_seed(3);
  const at::Tensor weight = numbers({16, 96, 64});
  at::Tensor chosen = at::randint(0, 16, {900, 4}, options_in(MemoryKind::kDevice, at::kInt));
  chosen.masked_fill_(chosen.eq(5), 6);  // an expert without tokens
  const std::array<Range, 1> all{Range{0, 900}};
  const ExpertRows rows(chosen, 0, 16, all, Join::kOnDevices);
  for (const RowBlock& block : rows.blocks()) {
    for (const at::Tensor& matrices : {weight, weight.transpose(1, 2)}) {
      const at::Tensor a = numbers({block.count, matrices.size(1)}),
                       found = at::empty({block.count, matrices.size(2)}, a.options()),
                       expected = at::empty_like(found);
      formulas::multiply_groups(expected, a, block, matrices);
      if (cuda_library::multiply_groups(found, a, block, matrices))
        expect_near(found, expected, "products");
      else
        EXPECT_FALSE(has_grouped_products());
    }
  }
}

}  // namespace
}  // namespace sluice::ops::device
