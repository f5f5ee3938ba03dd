// Gradients of a graph, wherever LibTorch computes them. Nodes over tensors in main memory run on the thread
// that asks; for a device LibTorch has a thread of its own. What a node has to say to other ranks belongs to
// the thread that asked, as all calls to MPI do.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace sluice::ops {

/// Whether a graph goes with its gradient, or stays for another one.
enum class GraphAfter : std::uint8_t { kFreed, kKept };

/// The gradient of `input` for that of `output`. While nodes run on another thread, this one does what they
/// ask of it by run_where_asked(). Errors of either are thrown here.
[[nodiscard]] at::Tensor graph_gradient(const at::Tensor& output, const at::Tensor& input,
                                        const at::Tensor& d_output, GraphAfter after = GraphAfter::kFreed);

/// Runs a graph node's `action` on the thread that is in graph_gradient(), and returns when it is done. Runs
/// it at once outside of graph_gradient(), and where nodes run on that thread anyway.
void run_where_asked(const std::function<void()>& action);

}  // namespace sluice::ops
