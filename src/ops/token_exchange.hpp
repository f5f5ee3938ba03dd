// The interface by which a layer's tokens are sent to the ranks that own their experts, and the results back.
#pragma once

#include "base/range.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

namespace sluice::ops {

/// N tokens with their choices. What a pass does not need is undefined.
struct ExpertTokens {
  at::Tensor x;        ///< [N, H]
  at::Tensor d_out;    ///< [N, H]: gradient of the experts' output; in backward alone
  at::Tensor experts;  ///< [N, k] int32: numbers among all experts
  at::Tensor weights;  ///< [N, k] float32
};

/// Tokens that are being received, in memory that belongs to the exchange until the next dispatch.
struct ArrivingTokens {
  ExpertTokens tokens;
  Range own;  ///< tokens of this rank itself, available at once
};

/// Dispatch of tokens to the ranks of their experts, and combination of the results.
class TokenExchange {
 public:
  virtual ~TokenExchange() = default;
  TokenExchange(const TokenExchange&) = delete;
  TokenExchange& operator=(const TokenExchange&) = delete;

  /// The first of this rank's experts, which are consecutive, among all.
  [[nodiscard]] virtual std::int64_t first_expert() const = 0;

  /// Collective over the ranks that have all experts between them. Takes this rank's T tokens, which must
  /// stay as they are until they have arrived.
  virtual void begin_dispatch(const ExpertTokens& own) = 0;
  /// Tokens that this rank's experts may work for, after dispatch.
  [[nodiscard]] virtual ArrivingTokens arriving() = 0;
  /// Collective over the same ranks, after both. Now all of them are there.
  virtual void finish_dispatch() = 0;

  /// Zeros [rows, width] in float32, for what this rank's experts make of the tokens here. The exchange's
  /// own, until the next call.
  [[nodiscard]] virtual at::Tensor sums(std::int64_t rows, std::int64_t width) = 0;

  /// Collective over the same ranks, after a dispatch. Takes what this rank's experts made of each token it
  /// was given, [N, width] in float32; returns the sums over ranks for this rank's own tokens [T, width],
  /// rounded to the dtype of the tokens.
  [[nodiscard]] virtual at::Tensor combine(const at::Tensor& sums) = 0;
  /// combine() with the gradients of the tokens' weights [N, k] beside it; those stay float32.
  [[nodiscard]] virtual std::pair<at::Tensor, at::Tensor> combine(const at::Tensor& sums,
                                                                  const at::Tensor& d_weights) = 0;

 protected:
  TokenExchange() = default;
};

}  // namespace sluice::ops
