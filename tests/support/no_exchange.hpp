// Experts without other ranks, for tests and benchmarks of operations.
#pragma once

#include "ops/token_exchange.hpp"

#include <ATen/ops/zeros.h>

#include <cstdint>
#include <utility>

namespace sluice::test {

/// All experts are here.
class NoExchange final : public ops::TokenExchange {
 public:
  [[nodiscard]] std::int64_t first_expert() const override { return 0; }
  void begin_dispatch(const ops::ExpertTokens& own) override { own_ = own; }
  [[nodiscard]] ops::ArrivingTokens arriving() override {
    of_tokens_ = own_.x.options();
    const std::int64_t count = own_.x.size(0);
    return {std::exchange(own_, {}), {0, count}};
  }
  void finish_dispatch() override {}
  [[nodiscard]] at::Tensor sums(std::int64_t rows, std::int64_t width) override {
    return at::zeros({rows, width}, of_tokens_.dtype(at::kFloat));
  }
  [[nodiscard]] at::Tensor combine(const at::Tensor& sums) override { return sums.to(of_tokens_); }
  [[nodiscard]] std::pair<at::Tensor, at::Tensor> combine(const at::Tensor& sums,
                                                          const at::Tensor& d_weights) override {
    return {sums.to(of_tokens_), d_weights};
  }

 private:
  ops::ExpertTokens own_;
  at::TensorOptions of_tokens_ = at::kFloat;
};

}  // namespace sluice::test
