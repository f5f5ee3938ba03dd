#include "ops/cpu/attention/tile_form.hpp"

#include "ops/cpu/attention/forward.hpp"
#include "ops/cpu/attention/gradients.hpp"
#include "ops/cpu/attention/tile_softmax.hpp"
#include "ops/cpu/tiles/packed_operand.hpp"

#ifdef SLUICE_TILES

namespace sluice::ops::cpu {
namespace tiles {
namespace {

using attention_blocks::Factors;
using attention_blocks::kGradientKeys;
using attention_blocks::kGradientPositions;

/// Scores of up to kPanelKeys keys for 32 queries, and the weights that they become.
class ForwardTiles {
 public:
  /// Computes the scores of 32 keys, from key `key` of the panel on.
  void set_scores(std::int64_t key, const TileRows& keys, const TileRows& queries, std::int64_t width) {
    multiply(keys, queries, divide_up(width, kDepth), scores_.values.data() + key * kBlock, kBlock,
             IntoSums::kReplacing);
  }
  void join(RunningPowers& powers, std::int64_t keys, SeenBits seen, float scale, float* output,
            std::int64_t width) {
    powers.join(scores_, keys, seen, scale, weights_, output, width);
  }
  [[nodiscard]] TileRows weights() const { return {weights_.data(), kPanelKeys / kDepth}; }

 private:
  PanelScores scores_;
  PanelWeights weights_;
};

/// Probabilities and gradients of the scores for some positions: for 32 keys, with keys as lines, and for a
/// panel of keys, with positions as lines.
class BackwardTiles {
 public:
  /// Fills the block of 32 keys, from key `key` of the panel on, by 32 queries.
  void set_block(std::int64_t query, std::int64_t key, const Factors<TileRows>& scores,
                 const Factors<TileRows>& grads, std::int64_t width, const QueryTerms& terms, SeenBits seen,
                 float scale) {
    KeyBlock block;
    const std::int64_t depth = divide_up(width, kDepth);
    multiply(scores.left, scores.right, depth, block.scores.data(), kBlock, IntoSums::kReplacing);
    multiply(grads.left, grads.right, depth, block.grads.data(), kBlock, IntoSums::kReplacing);
    gradients_of(block, terms, seen, scale, weights_.block(0, query), grads_.block(0, query),
                 grads_by_query_.block(query, key));
  }
  [[nodiscard]] TileRows weights(std::int64_t query) const { return weights_.rows(0, query); }
  [[nodiscard]] TileRows grads(std::int64_t query) const { return grads_.rows(0, query); }
  [[nodiscard]] TileRows grads_by_query(std::int64_t query, std::int64_t key) const {
    return grads_by_query_.rows(query, key);
  }

 private:
  PackedOperand weights_{kBlock, kGradientPositions};
  PackedOperand grads_{kBlock, kGradientPositions};
  PackedOperand grads_by_query_{kGradientPositions, kGradientKeys};
};

/// Attention of bfloat16 numbers with products on matrix tiles, see attention/forward.hpp.
struct TileForm {
  using Number = std::uint16_t;
  using Held = Registers;
  using Side = PackedOperand;
  using Rows = TileRows;
  using Softmax = RunningPowers;
  using ForwardPanel = ForwardTiles;
  using BackwardPanel = BackwardTiles;
  static constexpr std::int64_t kPackedBytes = sizeof(Number);  ///< Bytes of a number of a side.
  /// Number of keys that pass by at a time, which stay in a core's second-level cache.
  static constexpr std::int64_t kPassKeys = 2048;

  static Side pack(const attention_blocks::Lines<Number>& of, OperandSide side) {
    return {{of.data, of.lines, of.depth, of.line_stride, of.depth_stride}, side};
  }
  static void multiply(const Rows& left, const Rows& right, std::int64_t depth, float* sums,
                       std::int64_t stride, IntoSums into) {
    tiles::multiply(left, right, divide_up(depth, kDepth), sums, stride, into);
  }
  static void write_columns(const float* columns, std::int64_t stride, std::int64_t count, std::int64_t width,
                            float factor, Number* target, std::int64_t target_stride) {
    tiles::write_columns(columns, stride, count, width, factor, target, target_stride);
  }
  static void write_row(const float* row, std::int64_t width, float factor, Number* target) {
    tiles::write_row(row, width, factor, target);
  }
  static float dot(const Number* a, const Number* b, std::int64_t width) { return tiles::dot(a, b, width); }
};

}  // namespace
}  // namespace tiles

void tile_attention(std::span<const attention_blocks::HeadsForward<std::uint16_t>> all) {
  attention_blocks::attend_all<tiles::TileForm>(all);
}

void tile_attention_gradients(std::span<const attention_blocks::HeadsBackward<std::uint16_t>> all) {
  attention_blocks::differentiate_all<tiles::TileForm>(all);
}

}  // namespace sluice::ops::cpu

#else

#include "base/error.hpp"

namespace sluice::ops::cpu {

void tile_attention(std::span<const attention_blocks::HeadsForward<std::uint16_t>>) {
  fail(ExitCode::kInternal, "this program was built without attention on matrix tiles");
}
void tile_attention_gradients(std::span<const attention_blocks::HeadsBackward<std::uint16_t>>) {
  fail(ExitCode::kInternal, "this program was built without attention on matrix tiles");
}

}  // namespace sluice::ops::cpu

#endif
