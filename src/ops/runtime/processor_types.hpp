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

/// Whether a router makes the choice of experts, or repeats one that was made.
enum class Choice : bool { kMake, kRepeat };

/// Direction of a rotation by a position's angles.
enum class Turn : bool { kForward, kBack };

/// Sums over the logits of each token after some tiles of the vocabulary.
struct LogitSums {
  at::Tensor largest;       ///< [T] float32; begins at -infinity
  at::Tensor exponentials;  ///< [T] float64: sum of e^(logit - largest); begins at 0
  at::Tensor target;        ///< [T] float32: logit of the target; begins at 0
};

/// Inputs of attention, dense.
struct AttentionInputs {
  at::Tensor q;     ///< [b, L, nq, d]
  at::Tensor k, v;  ///< [b, L, nkv, d]
  double scale = 1;
  Documents documents{};
  at::Tensor sinks{};  ///< [nq] float32, as in AttentionForm; undefined: none
};

/// Sinks as AttentionInputs has them.
[[nodiscard]] inline at::Tensor sink_logits(const Parameter& sinks) {
  return sinks.value.defined() ? sinks.value.to(at::kFloat) : at::Tensor();
}

/// Destinations of the gradients: q, k and v dense and of their inputs' shapes and dtype; that of the sinks
/// [nq] float32 is added to, and undefined if it is not wanted.
struct AttentionGradients {
  at::Tensor q, k, v, sinks{};
};

/// An id, and where it stands among others.
struct PlacedId {
  std::int64_t place, id;
};

/// The rows of one expert among those of a block.
struct ExpertPart {
  std::int64_t expert;  ///< index of the expert among those of this rank
  std::int64_t begin, count;
};

/// Rows that are worked on at a time: of one expert, or of several on a device, where small pieces of work
/// cost as much as larger ones.
struct RowBlock {
  const std::int32_t* slots = nullptr;  ///< slot of each row: token * k + choice; in the order of tokens
  std::int64_t count = 0;               ///< rows with a slot
  std::int64_t padded = 0;              ///< rows of the matrices, those beyond count being zeros
  std::vector<ExpertPart> parts{};      ///< one after the other, in the order of experts
  // Copies on the device of the tokens, if that is not main memory:
  at::Tensor places{};  ///< the slots [count] int64
  at::Tensor ends{};    ///< ends of the rows of each of this rank's experts [experts] int32

  /// Rows of x, which has a row for each of the block: those of a part, and with a single part the zeros
  /// after them.
  [[nodiscard]] at::Tensor rows_of(const at::Tensor& x, const ExpertPart& part) const {
    return parts.size() == 1 ? x : x.narrow(0, part.begin, part.count);
  }
};

/// One row for each token and choice among this rank's experts, sorted by expert, then by token; in blocks of
/// kExpertBlockRows at most, or on a device of kExpertGroupRows, whatever the router chooses: what is alive
/// at a time does not depend on it. Sorted in main memory, wherever the tokens are.
class ExpertRows {
 public:
  /// chosen [N, k] int32 among all experts; of interest are [first_expert, first_expert + experts), and the
  /// tokens of these ranges, in their order.
  ExpertRows(const at::Tensor& chosen, std::int64_t first_expert, std::int64_t experts,
             std::span<const Range> tokens);

  [[nodiscard]] const std::vector<RowBlock>& blocks() const { return blocks_; }
  [[nodiscard]] std::int64_t count() const { return std::ssize(slots_); }
  /// Rows of the largest block.
  [[nodiscard]] std::int64_t largest_block() const;

 private:
  void join_blocks();
  void place(at::Device device, std::int64_t experts);

  std::vector<std::int32_t> slots_;
  std::vector<RowBlock> blocks_;
};

}  // namespace sluice::ops
