// Sums the losses of tokens by document. Pure.
#pragma once

#include "data/batch.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// The summed loss of one document, or of all.
struct DocumentLoss {
  std::int64_t targets = 0;  ///< tokens that were predicted: all but the first
  double loss_sum = 0;       ///< sum of losses, nats

  /// Mean cross-entropy in nats per token; NaN if nothing was predicted.
  [[nodiscard]] double loss() const;
  /// e^loss().
  [[nodiscard]] double perplexity() const;
};

/// Sums token losses over documents, which may span several sequences.
class DocumentLosses {
 public:
  /// The `marks` [sequences, length + 1] of sequences that follow those before, and the `losses` [sequences x
  /// length] of their targets. Returns the documents that ended in them, in order.
  [[nodiscard]] std::vector<DocumentLoss> add(std::int64_t length, std::span<const TokenMark> marks,
                                              std::span<const double> losses);
  /// Ends the document that is still open after the last batch; empty if there were no tokens.
  [[nodiscard]] std::vector<DocumentLoss> finish();

  [[nodiscard]] const DocumentLoss& total() const { return total_; }
  [[nodiscard]] std::int64_t documents() const { return documents_; }

 private:
  void begin(std::vector<DocumentLoss>& ended);

  DocumentLoss current_;
  DocumentLoss total_;
  std::int64_t documents_ = 0;  ///< begun so far
};

}  // namespace sluice
