// Shared by the autograd nodes of src/ops. Internal to src/ops.
#pragma once

#include "ops/documents.hpp"
#include "ops/parameter.hpp"
#include "ops/runtime/gating.hpp"

#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>
#include <string>

namespace sluice::ops::node {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

/// Keeps a pointer for backward; the object must outlive the graph.
template <class T>
void keep(AutogradContext* context, const std::string& name, T* object) {
  context->saved_data[name] = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(object));
}
template <class T>
T* kept_pointer(AutogradContext* context, const std::string& name) {
  return reinterpret_cast<T*>(static_cast<std::intptr_t>(context->saved_data[name].toInt()));
}

/// Keeps a parameter for backward. Not by save_for_backward(), which refuses tensors whose memory was written
/// since: these are written on purpose (weights gathered again, gradients added to).
inline void keep(AutogradContext* context, const std::string& name, const Parameter& parameter) {
  context->saved_data[name] = parameter.value;
  context->saved_data[name + ".grad"] = parameter.grad;
  keep(context, name + ".written", parameter.written);
  keep(context, name + ".matrices", parameter.matrices);
}
inline Parameter kept(AutogradContext* context, const std::string& name) {
  return {context->saved_data[name].toTensor(), context->saved_data[name + ".grad"].toTensor(),
          kept_pointer<GradientInitialized>(context, name + ".written"),
          kept_pointer<StoredMatrices>(context, name + ".matrices")};
}

inline void keep(AutogradContext* context, const Documents& documents) {
  context->saved_data["documents"] = documents.first;
  context->saved_data["documents.bounds"] = documents.bounds;
  context->saved_data["documents.longest"] = documents.longest;
}
inline Documents kept_documents(AutogradContext* context) {
  return {context->saved_data["documents"].toTensor(), context->saved_data["documents.bounds"].toTensor(),
          context->saved_data["documents.longest"].toInt()};
}

inline void keep(AutogradContext* context, const Gating& gating) {
  context->saved_data["gating.limit"] = static_cast<double>(gating.limit);
  context->saved_data["gating.slope"] = static_cast<double>(gating.slope);
  context->saved_data["gating.interleaved"] = gating.interleaved;
  context->saved_data["gating.activation"] = static_cast<std::int64_t>(gating.activation);
  context->saved_data["gating.clamp"] = static_cast<std::int64_t>(gating.clamp);
}
inline Gating kept_gating(AutogradContext* context) {
  return {.limit = static_cast<float>(context->saved_data["gating.limit"].toDouble()),
          .slope = static_cast<float>(context->saved_data["gating.slope"].toDouble()),
          .interleaved = context->saved_data["gating.interleaved"].toBool(),
          .activation = static_cast<Activation>(context->saved_data["gating.activation"].toInt()),
          .clamp = static_cast<Clamp>(context->saved_data["gating.clamp"].toInt())};
}

/// Whether a node with this input would be part of a graph.
inline bool wants_graph(const at::Tensor& input) {
  return at::GradMode::is_enabled() && input.requires_grad();
}

}  // namespace sluice::ops::node
