// Gradients of a graph, wherever LibTorch computes them. Nodes over tensors in main memory run on the calling
// thread; for a device LibTorch has a thread of its own. Messages to other ranks belong to the calling
// thread, like all calls to MPI.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace sluice::ops {

/// Whether a graph is freed with its gradient, or kept for another one.
enum class GraphAfter : std::uint8_t { kFreed, kKept };

/// Gradient of `input` from the gradient of `output`, which may be `input` itself. While nodes run on another thread,
/// this thread runs the actions that they pass to run_where_asked(). Errors of either thread are thrown here.
[[nodiscard]] at::Tensor graph_gradient(const at::Tensor& output, const at::Tensor& input,
                                        const at::Tensor& d_output, GraphAfter after = GraphAfter::kFreed);
/// The same for several outputs or inputs of one graph: the gradient of each input from those of all outputs. A
/// single output may be the single input.
[[nodiscard]] std::vector<at::Tensor> graph_gradients(const std::vector<at::Tensor>& outputs,
                                                      const std::vector<at::Tensor>& inputs,
                                                      const std::vector<at::Tensor>& d_outputs,
                                                      GraphAfter after = GraphAfter::kFreed);

/// Runs a graph node's `action` on the thread that called graph_gradient(), and returns when it is done. Runs
/// it at once outside of graph_gradient(), and where nodes run on that thread anyway.
void run_where_asked(const std::function<void()>& action);

/// Undefined numbers in x's place in a graph of which no value is used: x has the gradient `gradient`, of its shape,
/// whatever comes from behind.
[[nodiscard]] at::Tensor with_gradient(const at::Tensor& x, const at::Tensor& gradient);

}  // namespace sluice::ops
