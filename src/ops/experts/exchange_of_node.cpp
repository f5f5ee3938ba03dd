#include "ops/experts/exchange_of_node.hpp"

#include "ops/runtime/graph_gradient.hpp"
#include "ops/runtime/no_view_tracking.hpp"

#include <ATen/core/grad_mode.h>

#include <functional>

namespace sluice::ops {
namespace {

/// Runs `action` where messages are exchanged, and without a graph, like the node.
void asked(const std::function<void()>& action) {
  run_where_asked([&] {
    const NoViewTracking guard;
    const at::NoGradGuard no_grad;
    action();
  });
}

}  // namespace

void ExchangeOfNode::begin_dispatch(const ExpertTokens& own) {
  asked([&] { exchange_.begin_dispatch(own); });
}

ArrivingTokens ExchangeOfNode::arriving() {
  ArrivingTokens tokens;
  asked([&] { tokens = exchange_.arriving(); });
  return tokens;
}

void ExchangeOfNode::finish_dispatch() {
  asked([&] { exchange_.finish_dispatch(); });
}

at::Tensor ExchangeOfNode::sums(std::int64_t rows, std::int64_t width) {
  at::Tensor sums;
  asked([&] { sums = exchange_.sums(rows, width); });
  return sums;
}

at::Tensor ExchangeOfNode::combine(const at::Tensor& sums) {
  at::Tensor out;
  asked([&] { out = exchange_.combine(sums); });
  return out;
}

std::pair<at::Tensor, at::Tensor> ExchangeOfNode::combine(const at::Tensor& sums,
                                                          const at::Tensor& d_weights) {
  std::pair<at::Tensor, at::Tensor> out;
  asked([&] { out = exchange_.combine(sums, d_weights); });
  return out;
}

}  // namespace sluice::ops
