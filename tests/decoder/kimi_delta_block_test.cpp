#include "decoder/kimi_delta_block.hpp"

#include "decoder/token_mixer_test.hpp"

namespace sluice {
namespace {

/// Kimi delta attention over more tokens than a chunk of the delta rule has.
class KimiDeltaBlockTest : public test::TokenMixerTest {
 protected:
  KimiDeltaBlockTest() : TokenMixerTest(changes(), /*tokens=*/90, /*rounding=*/5e-6) {}

  static nlohmann::json changes() {
    nlohmann::json out = test::kimi_changes("kimi_linear", /*linear_heads=*/3);
    out["num_experts_per_token"] = 2;
    return out;
  }

  void expect_goes_on_and_documents_apart(const ModelConfig& form,
                                          const KimiDeltaParameters& parameters) const {
    const auto block = [&](const at::Tensor& x, const ops::Documents& documents) {
      return kimi_delta_block(form, parameters, x, documents);
    };
    expect_goes_on(block,
                   [&](const at::Tensor& x, std::span<const SequencePart> parts, SequenceCache& cache) {
                     return cached_kimi_delta_block(form, parameters, x, parts, cache.delta_net(0));
                   });
    expect_documents_apart(block, {0, 2, 3, 70});
  }

  KimiDeltaParameters parameters_ = kimi_delta_parameters(config(), layer());
};

TEST_F(KimiDeltaBlockTest, goes_on_from_a_state_and_keeps_packed_documents_apart) {
  expect_goes_on_and_documents_apart(config(), parameters_);
}

TEST_F(KimiDeltaBlockTest, does_so_with_bounded_decays_and_single_projections) {
  ModelConfig bounded = config();
  bounded.linear_attention.least_log_decay = -5;
  bounded.linear_attention.gate_rank = 0;
  KimiDeltaParameters single = parameters_;
  single.decay = {{}, parameters_.q_proj};
  single.gate = {{}, parameters_.v_proj};
  expect_goes_on_and_documents_apart(bounded, single);
}

}  // namespace
}  // namespace sluice
