// Batch of sequences that a rank trains on in a step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sluice {

/// Place of a token in its document.
enum class TokenMark : std::uint8_t {
  kInside,
  kBegins,   ///< first token of a document: it attends to nothing before it, and nothing before predicts it
  kPadding,  ///< fill of a last sequence, no token
  kMasked,   ///< token inside a document that others attend to, but no target
};

/// Consecutive sequences of a global batch. Each rank has an equal_part() of them, in rank order.
struct Batch {
  std::int64_t sequences = 0;
  std::int64_t length = 0;
  /// [sequences, length + 1], row-major: inputs are columns 0 .. length - 1, targets 1 .. length.
  std::vector<std::int64_t> ids{};
  /// [sequences, length + 1], or empty if each sequence is one document. Column 0 is kBegins only where a
  /// document begins that is not the last target of the sequence before.
  std::vector<TokenMark> marks{};
  /// Targets of the whole global batch, on every rank: those that begin no document and are not masked.
  std::int64_t global_targets = 0;
  /// Inputs of the whole global batch that are padding, on every rank.
  std::int64_t global_padding = 0;
  /// Whether a sequence may have several documents; else marks are for targets alone.
  bool separates_documents = true;

  /// Divisor of the sum of losses: the number of targets, or 1 in a batch without any, whose mean is 0.
  [[nodiscard]] double loss_divisor() const {
    return static_cast<double>(std::max<std::int64_t>(1, global_targets));
  }
};

/// Inputs in a batch that are padding; `global_padding` of a batch that is whole.
[[nodiscard]] std::int64_t count_padding(const Batch& batch);

/// Targets in a batch; `global_targets` of a batch that is whole.
[[nodiscard]] std::int64_t count_targets(const Batch& batch);

}  // namespace sluice
