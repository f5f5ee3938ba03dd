#include "decoder/short_conv_block.hpp"

#include "decoder/token_mixer_test.hpp"

namespace sluice {
namespace {

/// A short convolution of four taps.
class ShortConvBlockTest : public test::TokenMixerTest {
 protected:
  ShortConvBlockTest()
      : TokenMixerTest({{"model_type", "lfm2_moe"},
                        {"layer_types", {"conv", "full_attention"}},
                        {"conv_L_cache", 4},
                        {"num_dense_layers", 1}},
                       /*tokens=*/11, /*rounding=*/2e-6) {}

  [[nodiscard]] at::Tensor block(const at::Tensor& x, const ops::Documents& documents) const {
    return short_conv_block(config(), parameters_, x, documents);
  }

  ShortConvParameters parameters_ = short_conv_parameters(layer());
};

TEST_F(ShortConvBlockTest, one_token_then_three_then_the_rest_give_what_the_whole_gives) {
  expect_goes_on([&](const at::Tensor& x, const ops::Documents& documents) { return block(x, documents); },
                 [&](const at::Tensor& x, std::span<const SequencePart> parts, SequenceCache& cache) {
                   return cached_short_conv_block(config(), parameters_, x, parts, cache.short_conv(0));
                 });
}

TEST_F(ShortConvBlockTest, packed_documents_do_not_see_each_other_forward_or_backward) {
  expect_documents_apart(
      [&](const at::Tensor& x, const ops::Documents& documents) { return block(x, documents); },
      {0, 2, 3, 7});
}

}  // namespace
}  // namespace sluice
