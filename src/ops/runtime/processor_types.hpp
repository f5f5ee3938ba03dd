// Arguments and results of the functions of a processor, whichever it is. Internal to src/ops.
#pragma once

#include "base/range.hpp"
#include "ops/attention.hpp"
#include "ops/documents.hpp"
#include "ops/runtime/router_options.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace sluice::ops {

/// Whether a router chooses experts, or repeats an earlier choice.
enum class Choice : bool { kMake, kRepeat };

/// Direction in which an angle is applied.
enum class Turn : bool { kForward, kBack };

/// Sums over the logits of each token, over the tiles of the vocabulary so far.
struct LogitSums {
  at::Tensor largest;       ///< largest logit, [T] float32; begins at -infinity
  at::Tensor exponentials;  ///< sum of e^(logit - largest), [T] float64; begins at 0
  at::Tensor target;        ///< logit of the target, [T] float32; begins at 0
};

/// Inputs of attention; dense tensors.
struct AttentionInputs {
  at::Tensor q;     ///< queries [b, L, nq, d]
  at::Tensor k, v;  ///< keys and values [b, L, nkv, d]
  double scale = 1;
  Documents documents{};
  at::Tensor sinks{};  ///< sink logits [nq] float32, as in AttentionForm; undefined: none
};

/// Sink logits in the form that AttentionInputs takes.
[[nodiscard]] inline at::Tensor sink_logits(const Parameter& sinks) {
  return sinks.value.defined() ? sinks.value.to(at::kFloat) : at::Tensor();
}

/// Destinations of attention's gradients: q, k and v dense, in their inputs' shapes and dtype; the gradient
/// of the sinks, [nq] float32, is added to, and is undefined if not needed.
struct AttentionGradients {
  at::Tensor q, k, v, sinks{};
};

/// A token id and its position among other ids.
struct PlacedId {
  std::int64_t place, id;
};

/// Rows of one expert within a block.
struct ExpertPart {
  std::int64_t expert;  ///< index of the expert among this rank's experts
  std::int64_t begin, count;
};

/// Rows that are computed together: of one expert, or of several where small pieces of work would cost as much as
/// larger ones.
struct RowBlock {
  const std::int32_t* slots = nullptr;  ///< slot of each row: token * k + choice; in the order of tokens
  std::int64_t count = 0;               ///< rows that have a slot
  std::int64_t padded = 0;              ///< rows of the matrices; rows beyond `count` are zeros
  std::vector<ExpertPart> parts{};      ///< parts of the block, one per expert, in the order of experts
  // Copies of the slots and ends on the tokens' device, if that is not main memory:
  at::Tensor places{};  ///< slots of the rows, [count] int64
  at::Tensor ends{};    ///< end of the rows of each of this rank's experts, [experts] int32

  /// Rows of a part in x, which has a row for each row of the block; if the block has a single part, the
  /// padding is included.
  [[nodiscard]] at::Tensor rows_of(const at::Tensor& x, const ExpertPart& part) const {
    return parts.size() == 1 ? x : x.narrow(0, part.begin, part.count);
  }
};

/// Which blocks of rows become one: on a device all as far as its size goes; else none, or those of fewer than
/// kFewRows rows each, which a forward pass multiplies side by side where it has several threads.
enum class Join : bool { kOnDevices, kFewRowsToo };

/// Rows of experts: one row for each token and choice among this rank's experts, sorted by expert, then by
/// token, in blocks of at most kExpertBlockRows rows, or kExpertGroupRows on a device. Memory in use at a
/// time does not depend on the router. Sorted in main memory, wherever the tokens are.
class ExpertRows {
 public:
  /// `chosen` [N, k] int32 numbers experts among all; experts [first_expert, first_expert + experts) are this
  /// rank's, and only tokens of the given ranges are taken, in their order.
  ExpertRows(const at::Tensor& chosen, std::int64_t first_expert, std::int64_t experts,
             std::span<const Range> tokens, Join join);

  [[nodiscard]] const std::vector<RowBlock>& blocks() const { return blocks_; }
  [[nodiscard]] std::int64_t count() const { return std::ssize(slots_); }
  /// Number of rows of the largest block.
  [[nodiscard]] std::int64_t largest_block() const;

 private:
  void join_blocks(std::int64_t largest_joined, std::int64_t most_rows);
  void place(at::Device device, std::int64_t experts);

  std::vector<std::int32_t> slots_;
  std::vector<RowBlock> blocks_;
};

}  // namespace sluice::ops
