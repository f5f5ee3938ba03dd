// Low-rank changes of frozen weights (LoRA; Hu et al. 2021): W becomes W + scale * B A.
//
// A and B are tensors of the manifest like any other, so that they are sharded, gathered, routed, updated and saved as
// what they adapt. A is on the side of the inputs, whatever a file format calls it.
//
//   W [out, in]                         A [rank, in]           B [out, rank]
//   fused experts W [experts, out, in]  A [experts, rank, in]  B [experts, out, rank]
#pragma once

#include "manifest/manifest.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// How one weight is adapted.
struct AdaptedTensor {
  std::string base;       ///< name in the manifest, "model.layers.0.self_attn.q_proj.weight"
  std::int64_t rank = 0;  ///< at least 1; of each expert
  double scale = 1;       ///< alpha / scale_divisor()

  bool operator==(const AdaptedTensor&) const = default;
};

/// What alpha is divided by to be a scale: the rank, or with rslora its root (Kalajdzievski 2023).
[[nodiscard]] double scale_divisor(std::int64_t rank, bool rslora);

struct AdapterDescription {
  std::vector<AdaptedTensor> tensors;  ///< in the order of the manifest; none: no adapter
  double dropout = 0;  ///< of the inputs of A while training; 0 with an adapted expert or router

  [[nodiscard]] bool empty() const { return tensors.empty(); }
  /// How a tensor is adapted; null if it is not.
  [[nodiscard]] const AdaptedTensor* find(std::string_view base) const;
};

/// "model.layers.0.self_attn.q_proj.lora_A.weight" and lora_B; of fused experts
/// "model.layers.0.mlp.experts.gate_up_proj.lora_A" and lora_B.
struct AdapterNames {
  std::string a, b;
};
[[nodiscard]] AdapterNames adapter_names(std::string_view base);

/// Whether a tensor can be adapted: a matrix that tokens are multiplied with, or fused ones of experts; of an
/// embedding, a norm, a convolution or a vector there is no adapter.
[[nodiscard]] bool is_adaptable(const TensorInfo& tensor);

/// Adds A and B of each of these behind all tensors, in their type, with untrained values that leave the model as it is
/// (A uniform within 1 / sqrt(in), B zero), and freezes all others. Error(kInternal) for what is not adaptable.
void add_adapters(ParameterManifest& manifest, const AdapterDescription& adapters);

}  // namespace sluice
