// Batch of sequences that a rank trains on in one step.
#pragma once

#include "base/range.hpp"
#include "data/token_distributions.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sluice {

/// Mark of a token: its place in its document, and whether it is a target.
enum class TokenMark : std::uint8_t {
  kInside,
  kBegins,   ///< first token of a document: it attends to no earlier token, and no earlier token predicts it
  kPadding,  ///< padding of a last sequence, no real token
  kMasked,   ///< token inside a document that others attend to, but that is no target
};

/// Pair of documents of a token file in one sequence, of which the answer of the first is preferred. A document whose
/// first token is token f of the sequence, and that has n tokens, has the targets [f, f + n - 1): target c is token
/// c + 1. The marks say which of them are answer, kInside, and which prompt, kMasked.
struct PreferencePair {
  std::int64_t sequence = 0;                                ///< sequence of the share, from 0
  Range chosen, rejected;                                   ///< targets of both documents
  std::int64_t chosen_document = 0, rejected_document = 0;  ///< their numbers in the token file
  std::int64_t source = 0;                                  ///< number of the token file, of several
  /// Log-probabilities of both answers under the reference, in nats; 0 unless files of scores tell them.
  double chosen_reference = 0, rejected_reference = 0;
};

/// Consecutive sequences of a global batch. Each rank has an equal_part() of them, in rank order.
struct Batch {
  std::int64_t sequences = 0;
  std::int64_t length = 0;
  /// Token ids [sequences, length + 1], row-major: inputs are columns 0 .. length - 1, targets 1 .. length.
  std::vector<std::int64_t> ids{};
  /// Marks of the tokens, [sequences, length + 1]; empty if each sequence is one document. Column 0 is
  /// kBegins only if a document begins there that is not the last target of the sequence before.
  std::vector<TokenMark> marks{};
  /// Number of targets in the whole global batch, on every rank: tokens that begin no document and are not
  /// masked.
  std::int64_t global_targets = 0;
  /// Number of padded inputs in the whole global batch, on every rank.
  std::int64_t global_padding = 0;
  /// Pairs of these sequences, in their order, each with a target in both answers; empty unless the job learns
  /// from pairs.
  std::vector<PreferencePair> pairs{};
  /// Number of pairs in the whole global batch, on every rank.
  std::int64_t global_pairs = 0;
  /// Number of each token in its file, [sequences, length + 1], -1 for padding; empty unless the options ask for them.
  std::vector<std::int64_t> places{};
  /// A teacher's distributions of the targets, [sequences, length]; none unless the options name a teacher.
  TeacherRows teacher{};
  TeacherFacts teacher_facts{};  ///< what these have in common
  /// Whether a sequence may have several documents; otherwise marks only concern targets.
  bool separates_documents = true;

  /// Divisor of the sum of losses: the number of targets, or 1 for a batch without any, whose mean is 0.
  [[nodiscard]] double loss_divisor() const {
    return static_cast<double>(std::max<std::int64_t>(1, global_targets));
  }
};

/// Number of padded inputs in a batch; for a whole batch its `global_padding`.
[[nodiscard]] std::int64_t count_padding(const Batch& batch);

/// Number of targets in a batch; for a whole batch its `global_targets`.
[[nodiscard]] std::int64_t count_targets(const Batch& batch);

}  // namespace sluice
