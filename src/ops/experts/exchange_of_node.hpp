// An exchange of tokens as a node of a graph uses it. Internal to src/ops.
#pragma once

#include "ops/token_exchange.hpp"

#include <cstdint>
#include <utility>

namespace sluice::ops {

/// Exchange for a graph's node: the node may run on another thread than the one that sends messages. The
/// exchange that it asks must outlive it.
class ExchangeOfNode final : public TokenExchange {
 public:
  explicit ExchangeOfNode(TokenExchange& exchange) : exchange_(exchange) {}
  [[nodiscard]] std::int64_t first_expert() const override { return exchange_.first_expert(); }
  void begin_dispatch(const ExpertTokens& own) override;
  [[nodiscard]] ArrivingTokens arriving() override;
  void finish_dispatch() override;
  [[nodiscard]] at::Tensor sums(std::int64_t rows, std::int64_t width) override;
  [[nodiscard]] at::Tensor combine(const at::Tensor& sums) override;
  [[nodiscard]] std::pair<at::Tensor, at::Tensor> combine(const at::Tensor& sums,
                                                          const at::Tensor& d_weights) override;

 private:
  TokenExchange& exchange_;
};

}  // namespace sluice::ops
