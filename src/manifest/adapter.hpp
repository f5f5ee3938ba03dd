// Low-rank changes of frozen weights (LoRA; Hu et al. 2021): W becomes W + scale * B A.
//
// A and B are tensors of the manifest like any other, so that they are sharded, gathered, routed, updated and
// saved as what they adapt. A is on the side of the inputs, whatever a file format calls it. An adapter
// belongs to a weight as it is published: where that is joined from rows of several tensors of the manifest,
// these have one A together, and of B each has the rows that are its own.
//
//   W [out, in]                         A [rank, in]           B [out, rank]
//   fused experts W [experts, out, in]  A [experts, rank, in]  B [experts, out, rank]
#pragma once

#include "manifest/manifest.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// A matrix that tokens are multiplied with, or fused ones of experts, as checkpoints publish it.
struct AdaptableWeight {
  /// Name and shape of a weight: "model.layers.0.self_attn.q_proj.weight", or those of a joined tensor.
  TensorInfo info;
  std::vector<TensorRange> ranges;  ///< elements of the manifest's tensors, in the order of the weight's

  [[nodiscard]] bool is_fused() const { return info.shape.size() == 3; }
  [[nodiscard]] std::int64_t experts() const { return is_fused() ? info.shape[0] : 1; }
  [[nodiscard]] std::int64_t out() const { return info.shape[info.shape.size() - 2]; }
  [[nodiscard]] std::int64_t in() const { return info.shape.back(); }
};

/// All of a model's, in the order of the manifest. Of embeddings, norms, convolutions and vectors there is no
/// adapter.
[[nodiscard]] std::vector<AdaptableWeight> adaptable_weights(const ParameterManifest& manifest);
/// The one of that name; nothing if no such weight can be adapted.
[[nodiscard]] std::optional<AdaptableWeight> find_adaptable(const ParameterManifest& manifest,
                                                            std::string_view name);

/// How one weight is adapted.
struct AdaptedTensor {
  std::string base;       ///< name of an AdaptableWeight
  std::int64_t rank = 0;  ///< rank of the adapter, at least 1; for fused experts that of each expert
  double scale = 1;       ///< factor of the adapter's output: alpha / scale_divisor()

  bool operator==(const AdaptedTensor&) const = default;
};

/// What makes alpha a scale: it is divided by the rank, or with rslora by its square root (Kalajdzievski
/// 2023).
enum class ScaleRule : bool { kByRank, kByRootOfRank };
[[nodiscard]] double scale_divisor(std::int64_t rank, ScaleRule rule);

/// LoRA adapters of a model, as PEFT's adapter_config.json describes them.
struct AdapterDescription {
  std::vector<AdaptedTensor> tensors;  ///< adapted tensors in the manifest's order; empty: no adapter
  double dropout = 0;  ///< share of A's inputs dropped while training; 0 with an adapted expert or router

  [[nodiscard]] bool empty() const { return tensors.empty(); }
  /// How a weight is adapted; null if it is not.
  [[nodiscard]] const AdaptedTensor* find(std::string_view base) const;
};

/// "model.layers.0.self_attn.q_proj.lora_A.weight" and lora_B; of fused experts
/// "model.layers.0.mlp.experts.gate_up_proj.lora_A" and lora_B.
struct AdapterNames {
  std::string a, b;
};
/// Names of the adapter of tensor `tensor`, adapted or not: A has the name of the weight that it is published
/// under.
[[nodiscard]] AdapterNames adapter_names(const ParameterManifest& manifest, int tensor);

/// Adds A and B of each of these behind all tensors, in their type, with untrained values that leave the
/// model as it is (A uniform within 1 / sqrt(in), B zero), and freezes all others. Error(kInternal) for what
/// is not adaptable.
void add_adapters(ParameterManifest& manifest, const AdapterDescription& adapters);

}  // namespace sluice
