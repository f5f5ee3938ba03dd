#include "decoder/decoder.hpp"
#include "decoder/token_mixer_test.hpp"
#include "support/no_exchange.hpp"

#include <deque>

namespace sluice {
namespace {

/// Gemma 4: a layer with a window of three tokens and one without, with heads of two sizes, values that are keys in
/// the latter, and a dense MLP beside the experts of both.
class TwoKindsOfLayersTest : public test::TokenMixerTest {
 protected:
  TwoKindsOfLayersTest()
      : TokenMixerTest({{"model_type", "gemma4_text"},
                        {"layer_types", {"sliding_attention", "full_attention"}},
                        {"sliding_window", 3},
                        {"global_head_dim", 14},
                        {"num_global_key_value_heads", 1},
                        {"attention_k_eq_v", true},
                        {"enable_moe_block", true},
                        {"hidden_size_per_layer_input", 0}},
                       kTokens, /*rounding=*/2e-5) {}

  /// Both layers of x.
  [[nodiscard]] at::Tensor layers(const at::Tensor& x, const ops::Documents& documents) {
    at::Tensor out = x;
    for (int index = 0; index < config().layer_count(); ++index) {
      RoutingSums sums = decoder_.no_routing(index);
      out = decoder_.layer(index, out, documents, records_.emplace_back(), sums, {}, all_experts_);
    }
    return out;
  }

  static constexpr std::int64_t kTokens = 11;
  test::NoExchange all_experts_;
  Decoder decoder_{config(), views(), kTokens, nullptr};
  std::deque<SavedForRecompute> records_;  ///< records of all passes, whose graphs refer to them
};

TEST_F(TwoKindsOfLayersTest, packed_documents_do_not_see_each_other_forward_or_backward) {
  expect_documents_apart(
      [&](const at::Tensor& x, const ops::Documents& documents) { return layers(x, documents); },
      {0, 2, 3, 7});
}

TEST_F(TwoKindsOfLayersTest, a_token_reaches_those_behind_its_window_through_the_layer_without_one) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = numbers(3), changed = x.clone();
  changed.select(1, 2).add_(1);
  const auto reached = [&](int index) {
    const auto of = [&](const at::Tensor& in) {
      ops::AttentionRecord record;
      return decoder_.token_mixer(index, in, {}, record);
    };
    return (of(changed) - of(x)).abs().amax(-1)[0].gt(1e-6).sum().item<std::int64_t>();
  };
  EXPECT_EQ(reached(0), 3);
  EXPECT_EQ(reached(1), kTokens - 2);
}

}  // namespace
}  // namespace sluice
