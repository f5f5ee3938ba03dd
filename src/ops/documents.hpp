// Documents that are packed into one sequence; no token attends to another document.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sluice::ops {

/// Documents of sequences [b, L]: tokens attend to tokens of their own document alone.
struct Documents {
  /// [b, L] int64, dense: position of the first token that each token attends to, where its document or its
  /// window begins; it never falls from token to token. Undefined: each sequence is one document.
  at::Tensor first{};
  /// Bounds of packed documents for attention on a device, int32 [documents + 1]: the begins of all
  /// documents, one after the other, and the end of the last one.
  at::Tensor bounds{};
  std::int64_t longest = 0;  ///< tokens of the longest document, if there are bounds

  [[nodiscard]] bool packed() const { return first.defined(); }
};

/// Documents of sequences [b, L] from `begins` [b, L] (uint8, not 0 where a document begins). The first token
/// of a sequence begins a document in any case.
[[nodiscard]] Documents documents_from(const at::Tensor& begins);

/// Documents narrowed to a window: no token of sequences [b, L, ...] attends to more than `window` tokens,
/// itself included; 0: any number.
[[nodiscard]] Documents within_window(const Documents& documents, const at::Tensor& sequences,
                                      std::int64_t window);

}  // namespace sluice::ops
