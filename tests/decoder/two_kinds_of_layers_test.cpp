#include "decoder/decoder.hpp"
#include "decoder/token_mixer_test.hpp"
#include "support/no_exchange.hpp"

#include <deque>

namespace sluice {
namespace {

/// A layer with a window of three tokens and one without.
class TwoKindsOfLayersTest : public test::TokenMixerTest {
 protected:
  explicit TwoKindsOfLayersTest(const nlohmann::json& changes)
      : TokenMixerTest(changes, kTokens, /*rounding=*/2e-5) {}

  void expect_documents_apart_in_both_layers() {
    expect_documents_apart(
        [&](const at::Tensor& x, const ops::Documents& documents) { return layers(x, documents); },
        {0, 2, 3, 7});
  }

  /// Asks that a token changes itself and two behind it in layer `windowed`, and in the other one all behind it.
  void expect_window_in(int windowed) {
    const at::NoGradGuard no_grad;
    const at::Tensor x = numbers(3), changed = x.clone();
    changed.select(1, 2).add_(1);
    const auto reached = [&](int index) {
      const auto of = [&](const at::Tensor& in) {
        ops::AttentionRecord record;
        return decoder_.token_mixer(index, in, {}, record).hidden;
      };
      return (of(changed) - of(x)).abs().amax(-1)[0].gt(1e-6).sum().item<std::int64_t>();
    };
    EXPECT_EQ(reached(windowed), 3);
    EXPECT_EQ(reached(1 - windowed), kTokens - 2);
  }

 private:
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

/// Gemma 4: heads of two sizes, values that are keys in the layer without a window, and a dense MLP beside the experts
/// of both.
class GemmaLayersTest : public TwoKindsOfLayersTest {
 protected:
  GemmaLayersTest()
      : TwoKindsOfLayersTest({{"model_type", "gemma4_text"},
                              {"layer_types", {"sliding_attention", "full_attention"}},
                              {"sliding_window", 3},
                              {"global_head_dim", 14},
                              {"num_global_key_value_heads", 1},
                              {"attention_k_eq_v", true},
                              {"enable_moe_block", true},
                              {"hidden_size_per_layer_input", 0}}) {}
};

TEST_F(GemmaLayersTest, packed_documents_do_not_see_each_other_forward_or_backward) {
  expect_documents_apart_in_both_layers();
}

TEST_F(GemmaLayersTest, a_token_reaches_those_behind_its_window_through_the_layer_without_one) {
  expect_window_in(0);
}

/// MiMo-V2-Flash: values of other sizes than keys, and in the layer with a window other heads, and sinks.
class MimoLayersTest : public TwoKindsOfLayersTest {
 protected:
  MimoLayersTest()
      : TwoKindsOfLayersTest({{"model_type", "mimo_v2_flash"},
                              {"hybrid_layer_pattern", {0, 1}},
                              {"sliding_window_size", 2},
                              {"partial_rotary_factor", 0.45},
                              {"v_head_dim", 6},
                              {"swa_num_attention_heads", 6},
                              {"swa_num_key_value_heads", 3},
                              {"swa_head_dim", 14},
                              {"swa_v_head_dim", 16}}) {}
};

TEST_F(MimoLayersTest, packed_documents_do_not_see_each_other_forward_or_backward) {
  expect_documents_apart_in_both_layers();
}

TEST_F(MimoLayersTest, a_token_reaches_as_many_behind_it_as_sliding_window_size_says) { expect_window_in(1); }

}  // namespace
}  // namespace sluice
