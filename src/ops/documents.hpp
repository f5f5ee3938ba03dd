// Documents packed into one sequence, where no token may see another document.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sluice::ops {

/// Which documents the tokens of sequences [b, L] belong to.
struct Documents {
  /// [b, L] int64, dense: the position of the first token of each token's document. Undefined: each sequence
  /// is one document.
  at::Tensor first{};
  /// Of packed sequences on a device, one after the other, as its attention wants them: where each document begins, and the end
  /// of all: int32 [documents + 1].
  at::Tensor bounds{};
  std::int64_t longest = 0;  ///< tokens of the longest, if there are bounds

  [[nodiscard]] bool packed() const { return first.defined(); }
};

/// `first` of sequences [b, L] from `begins` [b, L] (uint8, not 0 where a document begins). The first token
/// of a sequence begins one in any case.
[[nodiscard]] Documents documents_from(const at::Tensor& begins);

}  // namespace sluice::ops
