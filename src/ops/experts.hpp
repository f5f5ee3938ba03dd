// The experts of a layer: this rank's own, and through an exchange those of other ranks.
#pragma once

#include "ops/adapters/lora.hpp"
#include "ops/router.hpp"
#include "ops/runtime/gating.hpp"
#include "ops/token_exchange.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace sluice::ops {

/// Called in a backward pass with each expert of this rank in turn, once its gradients are complete and
/// its weights are not needed any more.
using ExpertCompletion = std::function<void(std::int64_t expert)>;

/// Parameters of this rank's experts: gate_up [E, 2I, H] (gate rows, then up rows, or alternating as `gating`
/// says; without a gate [E, I, H]), down [E, H, I]; biases gate_up_bias [E, rows of gate_up] and down_bias
/// [E, H], undefined for none. LoRA adapters of experts have no dropout.
struct ExpertParameters {
  Weight gate_up;
  Weight down;
  /// If not null, the gradients of all experts lie in one place in turn: a backward pass works on each expert
  /// once, and calls this before it begins the next expert. Outlives all graphs.
  const ExpertCompletion* completion = nullptr;
  Parameter gate_up_bias{}, down_bias{};
  Gating gating{};
};

/// Mixture of experts: sum over a token's experts e of weight * (down[e] swiglu(gate_up[e] x +
/// gate_up_bias[e]) + down_bias[e]), for tokens x [T, H]; without a gate relu()^2 in place of swiglu().
///
/// Collective over the ranks of `exchange`, in forward (unless for the graph alone) and in backward. Weights
/// are rounded to x's dtype; a token's contributions are added in float32 in the order of the experts, and
/// rounded once on each rank that has some of them, so the result does not depend on the number of threads.
/// An expert without tokens is neither read nor given a gradient. Keeps x and the routing; backward sends the
/// tokens again and computes in blocks of kExpertBlockRows rows. `exchange` must outlive the graph.
///
/// Computation between the construction and output() overlaps with sending the tokens. So does its gradient
/// in backward: autograd runs newer nodes first, the node of output(), then those of the computation in
/// between, then the node of the construction. This rank's own tokens need no transfer; its experts begin
/// with them if they are many.
///
/// With the gradient of its output, `d_out` [T, H], a pass is for the graph alone: it has no forward, and
/// sends the tokens with that gradient at once, which overlaps with everything up to the backward.
class Experts {
 public:
  /// Begins to send the tokens.
  Experts(const at::Tensor& x, const ExpertParameters& parameters, const Routing& routing,
          TokenExchange& exchange, const at::Tensor& d_out = {});

  /// Output of the experts [T, H]; zeros in a pass for the graph alone. Must be called once.
  [[nodiscard]] at::Tensor output();

 private:
  [[nodiscard]] bool wants_graph() const;

  ExpertParameters parameters_;
  ExpertTokens tokens_;
  TokenExchange& exchange_;
  at::Tensor sent_;  ///< empty tensor that ties the nodes of a graph together
};

/// Output of Experts for x, without computation between the construction and output().
[[nodiscard]] at::Tensor experts(const at::Tensor& x, const ExpertParameters& parameters,
                                 const Routing& routing, TokenExchange& exchange);

/// Collective over the ranks of `exchange`: takes part in a pass of other ranks without tokens of its own,
/// since their tokens (`choices` experts each) may go to this rank's experts.
void serve_experts(const ExpertParameters& parameters, std::int64_t choices, TokenExchange& exchange);
void serve_experts_backward(const ExpertParameters& parameters, std::int64_t choices,
                            TokenExchange& exchange);

}  // namespace sluice::ops
