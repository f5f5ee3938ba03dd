#include "decoder/mamba2_block.hpp"

#include "decoder/token_mixer_test.hpp"

namespace sluice {
namespace {

/// Mamba-2 with two groups of heads, over more tokens than a chunk of its scan has.
class Mamba2BlockTest : public test::TokenMixerTest {
 protected:
  Mamba2BlockTest()
      : TokenMixerTest({{"model_type", "granitemoehybrid"},
                        {"layer_types", {"mamba", "attention"}},
                        {"num_local_experts", 4},
                        {"num_experts_per_tok", 2},
                        {"shared_intermediate_size", 8},
                        {"mamba_n_heads", 4},
                        {"mamba_n_groups", 2},
                        {"mamba_d_state", 6}},
                       /*tokens=*/90, /*rounding=*/5e-6) {}

  [[nodiscard]] at::Tensor block(const at::Tensor& x, const ops::Documents& documents) const {
    return mamba2_block(config(), parameters_, x, documents);
  }

  Mamba2Parameters parameters_ = mamba2_parameters(config(), layer());
};

TEST_F(Mamba2BlockTest, one_token_then_three_then_the_rest_give_what_the_whole_gives) {
  expect_goes_on([&](const at::Tensor& x, const ops::Documents& documents) { return block(x, documents); },
                 [&](const at::Tensor& x, std::span<const SequencePart> parts, SequenceCache& cache) {
                   return cached_mamba2_block(config(), parameters_, x, parts, cache.delta_net(0));
                 });
}

TEST_F(Mamba2BlockTest, packed_documents_do_not_see_each_other_forward_or_backward) {
  expect_documents_apart(
      [&](const at::Tensor& x, const ops::Documents& documents) { return block(x, documents); },
      {0, 2, 3, 70});
}

}  // namespace
}  // namespace sluice
