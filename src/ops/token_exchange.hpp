// Interface for sending a layer's tokens to the ranks that own their experts, and for returning the results.
#pragma once

#include "base/range.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

namespace sluice::ops {

/// N tokens with their choices of experts. Members that a pass does not need are undefined.
struct ExpertTokens {
  at::Tensor x;        ///< hidden states of the tokens, [N, H]
  at::Tensor d_out;    ///< gradient of the experts' output, [N, H]; in backward alone
  at::Tensor experts;  ///< experts of each token, [N, k] int32, numbered among all experts
  at::Tensor weights;  ///< weights of these experts, [N, k] float32
};

/// Tokens that are being received, in memory that belongs to the exchange until the next dispatch.
struct ArrivingTokens {
  ExpertTokens tokens;
  Range own;  ///< tokens of this rank itself, which are available at once
};

/// Dispatch of tokens to the ranks of their experts, and combination of the results.
class TokenExchange {
 public:
  virtual ~TokenExchange() = default;
  TokenExchange(const TokenExchange&) = delete;
  TokenExchange& operator=(const TokenExchange&) = delete;

  /// Number of this rank's first expert among all experts; the rank's experts are consecutive.
  [[nodiscard]] virtual std::int64_t first_expert() const = 0;

  /// Collective over the ranks that have all experts between them. Begins to send this rank's T tokens, which
  /// must not change until they have arrived.
  virtual void begin_dispatch(const ExpertTokens& own) = 0;
  /// Tokens for this rank's experts, after begin_dispatch(); other ranks' tokens are there after
  /// finish_dispatch().
  [[nodiscard]] virtual ArrivingTokens arriving() = 0;
  /// Collective over the same ranks, after begin_dispatch() and arriving(). Returns when all tokens have
  /// arrived.
  virtual void finish_dispatch() = 0;

  /// Zeros [rows, width] in float32, to which this rank's experts add their results. Memory of the exchange,
  /// valid until the next call.
  [[nodiscard]] virtual at::Tensor sums(std::int64_t rows, std::int64_t width) = 0;

  /// Collective over the same ranks, after a dispatch. Takes the results of this rank's experts for each
  /// token that it received, [N, width] in float32; returns the sums over ranks for this rank's own tokens
  /// [T, width], rounded to the dtype of the tokens.
  [[nodiscard]] virtual at::Tensor combine(const at::Tensor& sums) = 0;
  /// combine() that also returns the gradients of the tokens' weights [N, k], which stay float32.
  [[nodiscard]] virtual std::pair<at::Tensor, at::Tensor> combine(const at::Tensor& sums,
                                                                  const at::Tensor& d_weights) = 0;

 protected:
  TokenExchange() = default;
};

}  // namespace sluice::ops
