// Documents packed into one sequence, where no token may see another document.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sluice::ops {

/// Documents of sequences [b, L]: tokens attend to tokens of their own document alone.
struct Documents {
  /// [b, L] int64, dense: the position of the first token that each token sees, that of its document or of a
  /// window; from token to token it never falls. Undefined: each sequence is one document.
  at::Tensor first{};
  /// Bounds of packed sequences on a device, as its attention wants them: the begins of all documents, one
  /// after the other, and the last one's end: int32 [documents + 1].
  at::Tensor bounds{};
  std::int64_t longest = 0;  ///< tokens of the longest, if there are bounds

  [[nodiscard]] bool packed() const { return first.defined(); }
};

/// `first` of sequences [b, L] from `begins` [b, L] (uint8, not 0 where a document begins). The first token
/// of a sequence begins one in any case.
[[nodiscard]] Documents documents_from(const at::Tensor& begins);

/// Documents in which no token of sequences [b, L, ...] attends to more than `window` tokens, itself
/// included; 0: any number.
[[nodiscard]] Documents within_window(const Documents& documents, const at::Tensor& sequences,
                                      std::int64_t window);

}  // namespace sluice::ops
