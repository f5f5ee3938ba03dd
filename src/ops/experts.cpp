#include "ops/experts.hpp"

#include "base/compute_sizes.hpp"
#include "base/error.hpp"
#include "base/trace/recorder.hpp"
#include "ops/adapters/lora_product.hpp"
#include "ops/experts/exchange_of_node.hpp"
#include "ops/experts/expert_products.hpp"
#include "ops/matmul.hpp"
#include "ops/runtime/graph_gradient.hpp"
#include "ops/runtime/no_view_tracking.hpp"
#include "ops/runtime/node.hpp"
#include "ops/runtime/processor.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

namespace sluice::ops {
namespace {

void clear_unwritten_expert(const ExpertParameters& parameters, std::int64_t expert) {
  const auto clear = [&](const Parameter& parameter) {
    if (parameter.grad.defined()) clear_unwritten_gradient(parameter, expert);
  };
  for (const Weight* fused : {&parameters.gate_up, &parameters.down}) {
    clear(fused->base);
    if (!fused->lora) continue;
    clear(fused->lora->a);
    clear(fused->lora->b);
  }
  clear(parameters.gate_up_bias);
  clear(parameters.down_bias);
}

/// Buffers of one block of rows, allocated once for all blocks of a pass.
class BlockBuffers {
 public:
  BlockBuffers(const at::Tensor& x, std::int64_t rows, std::int64_t width, const Gating& gating)
      : hidden_(x.size(1)),
        width_(width),
        gating_(gating),
        inputs_(at::empty({rows, hidden_}, x.options())),
        outputs_(at::empty({rows, hidden_}, x.options())),
        gate_up_(at::empty({rows, gating.projections() * width}, x.options())),
        activation_(at::empty({rows, width}, x.options())) {}

  /// Buffers of a number of rows.
  struct Rows {
    at::Tensor inputs, gate_up, gate, up, activation, outputs;
  };

  /// The first rows of all buffers. A block of a pass of answers has few rows, often as many as that before it.
  [[nodiscard]] const Rows& rows(std::int64_t count) {
    if (rows_.inputs.defined() && rows_.inputs.size(0) == count) return rows_;
    const at::Tensor gate_up = gate_up_.narrow(0, 0, count);
    rows_ = {inputs_.narrow(0, 0, count),
             gate_up,
             part_of(gate_up, 0),
             part_of(gate_up, 1),
             activation_.narrow(0, 0, count),
             outputs_.narrow(0, 0, count)};
    return rows_;
  }

 private:
  [[nodiscard]] at::Tensor part_of(const at::Tensor& joint, std::int64_t part) const {
    if (!gating_.has_gate()) return joint;
    return gating_.interleaved ? joint.slice(1, part, 2 * width_, 2) : joint.narrow(1, part * width_, width_);
  }

  std::int64_t hidden_, width_;
  Gating gating_;
  at::Tensor inputs_, outputs_, gate_up_, activation_;
  Rows rows_;
};

/// Average rows per expert, from own tokens, above which own tokens are computed before others arrive. That
/// makes one more block for every other expert, and a block costs as much as some 128 rows.
constexpr std::int64_t kRowsApart = kExpertBlockRows * 3 / 4;

/// One pass of the arriving tokens through this rank's experts. Collective over the exchange's ranks.
class ExpertPass {
 public:
  ExpertPass(const ExpertParameters& parameters, TokenExchange& exchange)
      : ExpertPass(parameters, exchange, exchange.arriving()) {}

  /// Sums [N, H] float32 of the experts' outputs for each token, weighted.
  at::Tensor forward() {
    for_each_block(Join::kFewRowsToo, [&](const RowBlock& block) { forward(block); });
    return sums_;
  }

  /// Gradients of the tokens [N, H] and of their weights [N, k], float32; also adds the gradients of the
  /// parameters.
  std::pair<at::Tensor, at::Tensor> backward() {
    d_weights_ = at::zeros_like(tokens_.weights);
    for_each_block(Join::kOnDevices, [&](const RowBlock& block) {
      complete_before(block.parts.front().expert);
      backward(block);
    });
    complete_before(expert_count());
    return {sums_, d_weights_};
  }

 private:
  ExpertPass(const ExpertParameters& parameters, TokenExchange& exchange, ArrivingTokens arriving)
      : parameters_(parameters),
        exchange_(exchange),
        tokens_(std::move(arriving.tokens)),
        own_(arriving.own),
        sums_(exchange.sums(tokens_.x.size(0), tokens_.x.size(1))) {}

  /// Calls `work` with each block: with own tokens first, while others travel, if own tokens are many.
  template <class Work>
  void for_each_block(Join join, Work work) {
    const std::int64_t all = tokens_.x.size(0), experts = expert_count();
    const ExpertRows own = rows(std::array{own_}, join);
    const bool is_many = own.count() >= experts * kRowsApart && parameters_.completion == nullptr;
    const bool own_first = own_.count() == all || is_many;
    if (own_first) work_on(own, work);
    exchange_.finish_dispatch();
    work_on(own_first ? rows(std::array{Range{0, own_.begin}, Range{own_.end, all}}, join)
                      : rows(std::array{Range{0, all}}, join),
            work);
  }

  [[nodiscard]] std::int64_t expert_count() const { return parameters_.down.base.value.size(0); }

  [[nodiscard]] ExpertRows rows(std::span<const Range> tokens, Join join) const {
    return {tokens_.experts, exchange_.first_expert(), expert_count(), tokens, join};
  }

  template <class Work>
  void work_on(const ExpertRows& rows, Work work) {
    buffers_.emplace(tokens_.x, rows.largest_block(), parameters_.down.base.value.size(2),
                     parameters_.gating);
    for (const RowBlock& block : rows.blocks()) work(block);
    buffers_.reset();
  }

  /// With experts in turn: marks the gradients of the experts before `expert` complete.
  void complete_before(std::int64_t expert) {
    if (parameters_.completion == nullptr) return;
    for (; completed_ < expert; ++completed_) {
      clear_unwritten_expert(parameters_, completed_);
      run_where_asked([&] { (*parameters_.completion)(completed_); });
    }
  }

  /// Fills the inputs of a block, and their products with the gate and up matrices of the block's experts.
  const BlockBuffers::Rows& enter(const RowBlock& block, std::int64_t rows, Uses uses) {
    const BlockBuffers::Rows& buffers = buffers_->rows(rows);
    on::take_rows(tokens_.x, block, tokens_.experts.size(1), buffers.inputs);
    multiply_by_experts(parameters_.gate_up, block, buffers.inputs, buffers.gate_up, uses);
    add_expert_biases(parameters_.gate_up_bias, block, buffers.gate_up);
    return buffers;
  }

  void forward(const RowBlock& block) {
    const std::int64_t rows = block.count <= kFewRows ? block.count : block.padded;
    const BlockBuffers::Rows& buffers = enter(block, rows, Uses::kOnce);
    on::swiglu_rows(buffers.gate, buffers.up, buffers.activation, parameters_.gating);
    multiply_by_experts(parameters_.down, block, buffers.activation, buffers.outputs, Uses::kOnce);
    add_expert_biases(parameters_.down_bias, block, buffers.outputs);
    on::add_rows(buffers.outputs, block, tokens_.experts.size(1), tokens_.weights, sums_);
  }

  void backward(const RowBlock& block) {
    const BlockBuffers::Rows& buffers = enter(block, block.padded, Uses::kAgain);
    const at::Tensor &inputs = buffers.inputs, &gate_up = buffers.gate_up, &activation = buffers.activation;
    const at::Tensor& d_outputs = buffers.outputs;
    on::take_rows(tokens_.d_out, block, tokens_.experts.size(1), d_outputs);
    const ExpertOutputGradient of_down(parameters_.down, block, d_outputs);
    of_down.multiply(activation);  // gradient of the activation, before it is weighted
    on::weighted_swiglu_backward(buffers.gate, buffers.up, activation, block, tokens_.weights, d_weights_,
                                 parameters_.gating);
    if (const at::Tensor& biases = parameters_.down_bias.value; biases.defined())
      on::add_bias_products(d_outputs, block, biases, d_weights_);
    const ExpertOutputGradient of_gate_up(parameters_.gate_up, block, gate_up);
    const auto bring_input_gradient = [&] {
      of_gate_up.multiply(inputs);  // the gradient takes the memory of the inputs
      on::add_rows(inputs, block, tokens_.experts.size(1), at::Tensor(), sums_);
    };
    // A complete expert may be updated at once, before the others of its block: then no weights may be needed
    // any more.
    const bool is_updated_amid = parameters_.completion != nullptr && block.parts.size() > 1;
    if (is_updated_amid) {
      bring_input_gradient();
      on::take_rows(tokens_.x, block, tokens_.experts.size(1), inputs);
    }
    for (std::size_t part = 0; part < block.parts.size(); ++part) {
      complete_before(block.parts[part].expert);
      of_down.accumulate(part, activation);
      of_gate_up.accumulate(part, inputs);
      bring_expert_bias_gradient(parameters_.down_bias, block, block.parts[part], d_outputs, tokens_.weights);
      bring_expert_bias_gradient(parameters_.gate_up_bias, block, block.parts[part], gate_up, {});
    }
    if (!is_updated_amid) bring_input_gradient();
  }

  const ExpertParameters& parameters_;
  TokenExchange& exchange_;
  const ExpertTokens tokens_;
  const Range own_;
  std::optional<BlockBuffers> buffers_;
  at::Tensor sums_, d_weights_;
  std::int64_t completed_ = 0;  ///< experts whose gradients are complete
};

/// Receives tokens that were sent, and returns the combined results of the experts.
at::Tensor receive_and_run(const ExpertParameters& parameters, TokenExchange& exchange) {
  const NoViewTracking guard;
  return exchange.combine(ExpertPass(parameters, exchange).forward());
}

std::pair<at::Tensor, at::Tensor> receive_and_run_backward(const ExpertParameters& parameters,
                                                           TokenExchange& exchange) {
  const NoViewTracking guard;
  const auto [sums, d_weights] = ExpertPass(parameters, exchange).backward();
  return exchange.combine(sums, d_weights);
}

void send(const ExpertTokens& own, TokenExchange& exchange) {
  const NoViewTracking guard;
  exchange.begin_dispatch(own);
}

/// Arguments of a node that autograd must not look at.
struct Unseen {
  ExpertParameters parameters;
  ExpertTokens tokens;
  TokenExchange* exchange;

  [[nodiscard]] bool is_for_graph() const { return tokens.d_out.defined(); }
};

/// The older of two nodes: its forward sends the tokens, and its backward computes the gradients of its
/// inputs.
struct First : node::Function<First> {
  static at::Tensor forward(node::AutogradContext* context, const at::Tensor& x, const at::Tensor&,
                            const Unseen& inputs) {
    node::keep(context, "gate_up", inputs.parameters.gate_up);
    node::keep(context, "down", inputs.parameters.down);
    node::keep(context, "completion", inputs.parameters.completion);
    node::keep(context, "gate_up_bias", inputs.parameters.gate_up_bias);
    node::keep(context, "down_bias", inputs.parameters.down_bias);
    node::keep(context, inputs.parameters.gating);
    node::keep(context, "exchange", inputs.exchange);
    send(inputs.tokens, *inputs.exchange);
    return at::empty({0}, x.options());
  }

  static node::variable_list backward(node::AutogradContext* context, const node::variable_list&) {
    const trace::Span span(trace::Kind::kOperation, "experts backward");
    ExchangeOfNode exchange(*node::kept_pointer<TokenExchange>(context, "exchange"));
    auto [d_x, d_weights] = receive_and_run_backward(
        {node::kept_weight(context, "gate_up"), node::kept_weight(context, "down"),
         node::kept_pointer<const ExpertCompletion>(context, "completion"),
         node::kept(context, "gate_up_bias"), node::kept(context, "down_bias"), node::kept_gating(context)},
        exchange);
    return {d_x, d_weights, {}};
  }
};

/// The newer of two nodes: its forward computes the experts, and its backward sends. In a pass for the graph
/// alone it does neither: the older node has already sent what backward needs.
struct Last : node::Function<Last> {
  static at::Tensor forward(node::AutogradContext* context, const at::Tensor& /*sent*/,
                            const Unseen& inputs) {
    const ExpertTokens& tokens = inputs.tokens;
    context->saved_data["is_sent"] = inputs.is_for_graph();
    if (inputs.is_for_graph()) return at::zeros_like(tokens.x);
    context->save_for_backward({tokens.x, tokens.experts, tokens.weights});
    node::keep(context, "exchange", inputs.exchange);
    return receive_and_run(inputs.parameters, *inputs.exchange);
  }

  static node::variable_list backward(node::AutogradContext* context, const node::variable_list& grads) {
    const trace::Span span(trace::Kind::kOperation, "experts backward");
    if (!context->saved_data["is_sent"].toBool()) {
      const auto saved = context->get_saved_variables();
      ExchangeOfNode exchange(*node::kept_pointer<TokenExchange>(context, "exchange"));
      send({saved[0], grads[0].contiguous(), saved[1], saved[2]}, exchange);
    }
    return {at::empty({0}, grads[0].options()), {}};
  }
};

/// Tokens of a rank without tokens: empty, of the shapes and types that other ranks send.
ExpertTokens no_tokens(const ExpertParameters& parameters, std::int64_t choices) {
  const at::Tensor x =
      at::empty({0, parameters.down.base.value.size(1)}, parameters.down.base.value.options());
  return {x,
          {},
          at::empty({0, choices}, x.options().dtype(at::kInt)),
          at::empty({0, choices}, x.options().dtype(at::kFloat))};
}

}  // namespace

Experts::Experts(const at::Tensor& x, const ExpertParameters& parameters, const Routing& routing,
                 TokenExchange& exchange, const at::Tensor& d_out)
    : parameters_(parameters),
      tokens_{x.contiguous(), d_out.defined() ? d_out.contiguous() : d_out, routing.experts.to(at::kInt),
              routing.weights.contiguous()},
      exchange_(exchange) {
  const trace::Span span(trace::Kind::kOperation, "experts");
  const at::Tensor &gate_up = parameters.gate_up.base.value, &down = parameters.down.base.value;
  SLUICE_ASSERT(
      gate_up.size(1) == parameters.gating.projections() * down.size(2) && gate_up.size(2) == x.size(1),
      "expert matrices of {} by {} do not fit rows of {} elements", gate_up.size(1), gate_up.size(2),
      x.size(1));
  if (wants_graph())
    sent_ = First::apply(tokens_.x, tokens_.weights, Unseen{parameters_, tokens_, &exchange_});
  else
    send(tokens_, exchange_);
}

bool Experts::wants_graph() const {
  return node::wants_graph(tokens_.x) || node::wants_graph(tokens_.weights);
}

at::Tensor Experts::output() {
  const trace::Span span(trace::Kind::kOperation, "experts");
  if (!wants_graph()) return receive_and_run(parameters_, exchange_);
  return Last::apply(sent_, Unseen{parameters_, std::exchange(tokens_, {}), &exchange_});
}

at::Tensor experts(const at::Tensor& x, const ExpertParameters& parameters, const Routing& routing,
                   TokenExchange& exchange) {
  return Experts(x, parameters, routing, exchange).output();
}

void serve_experts(const ExpertParameters& parameters, std::int64_t choices, TokenExchange& exchange) {
  send(no_tokens(parameters, choices), exchange);
  static_cast<void>(receive_and_run(parameters, exchange));
}

void serve_experts_backward(const ExpertParameters& parameters, std::int64_t choices,
                            TokenExchange& exchange) {
  ExpertTokens own = no_tokens(parameters, choices);
  own.d_out = own.x;
  send(own, exchange);
  static_cast<void>(receive_and_run_backward(parameters, exchange));
}

}  // namespace sluice::ops
