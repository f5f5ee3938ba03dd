// Sums of token losses by document. Pure.
#pragma once

#include "data/batch.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// Summed loss of one document, or of all documents.
struct DocumentLoss {
  std::int64_t targets = 0;  ///< tokens that were predicted: all but the first
  double loss_sum = 0;       ///< sum of losses, in nats

  /// Mean cross-entropy in nats per token; NaN if no token was predicted.
  [[nodiscard]] double loss() const;
  /// Perplexity: e^loss().
  [[nodiscard]] double perplexity() const;
};

/// Sums token losses over documents, which may span several sequences.
class DocumentLosses {
 public:
  /// Adds sequences of `length` tokens that follow the earlier ones: their `marks` [sequences, length + 1]
  /// and the `losses` [sequences x length] of their targets. Returns the documents that ended in them, in
  /// order.
  [[nodiscard]] std::vector<DocumentLoss> add(std::int64_t length, std::span<const TokenMark> marks,
                                              std::span<const double> losses);
  /// Ends the document that is still open after the last batch; returns nothing if there were no tokens.
  [[nodiscard]] std::vector<DocumentLoss> finish();

  [[nodiscard]] const DocumentLoss& total() const { return total_; }
  [[nodiscard]] std::int64_t documents() const { return documents_; }

 private:
  void begin(std::vector<DocumentLoss>& ended);

  DocumentLoss current_;
  DocumentLoss total_;
  std::int64_t documents_ = 0;  ///< documents begun so far
};

}  // namespace sluice
