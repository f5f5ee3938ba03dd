// Manifests for layout tests.
#pragma once

#include "manifest/manifest.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace sluice::testing_models {

struct Shape {
  int layers = 2;
  std::int64_t hidden = 5;
  std::int64_t experts = 3;
  std::int64_t width = 4;
  std::int64_t vocabulary = 11;
  bool tied = false;
};

/// A small mixture-of-experts decoder whose sizes are no multiples of anything.
inline ParameterManifest moe(const Shape& shape = {}) {
  ParameterManifest manifest;
  const auto add = [&](std::string name, std::vector<std::int64_t> dims, Role role, int layer,
                       std::string tied_to = {}) {
    manifest.add({std::move(name), std::move(dims), DType::kFloat32, role, layer, TensorKind::kParameter,
                  std::move(tied_to)});
  };
  add("model.embed_tokens.weight", {shape.vocabulary, shape.hidden}, Role::kEmbedding, -1);
  for (int layer = 0; layer < shape.layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    add(prefix + "self_attn.q_proj.weight", {6, shape.hidden}, Role::kAttention, layer);
    add(prefix + "mlp.gate.weight", {shape.experts, shape.hidden}, Role::kRouter, layer);
    add(prefix + "mlp.experts.gate_up_proj", {shape.experts, 2 * shape.width, shape.hidden}, Role::kExpert,
        layer);
    add(prefix + "mlp.experts.down_proj", {shape.experts, shape.hidden, shape.width}, Role::kExpert, layer);
    add(prefix + "input_layernorm.weight", {shape.hidden}, Role::kNorm, layer);
  }
  add("model.norm.weight", {shape.hidden}, Role::kNorm, -1);
  add("lm_head.weight", {shape.vocabulary, shape.hidden}, Role::kHead, -1,
      shape.tied ? "model.embed_tokens.weight" : "");
  manifest.add({"inv_freq", {2}, DType::kFloat32, Role::kAttention, -1, TensorKind::kComputedBuffer, {}});
  return manifest;
}

}  // namespace sluice::testing_models
