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

/// An adaptable weight: a matrix that multiplies tokens, or fused ones of experts, as checkpoints publish it.
struct AdaptableWeight {
  /// Name and shape of a weight: "model.layers.0.self_attn.q_proj.weight", or those of a joined tensor.
  TensorInfo info;
  /// Ranges of manifest tensors that make up the weight, in its order of elements.
  std::vector<TensorRange> ranges;

  [[nodiscard]] bool is_fused() const { return info.shape.size() == 3; }
  [[nodiscard]] std::int64_t experts() const { return is_fused() ? info.shape[0] : 1; }
  [[nodiscard]] std::int64_t out() const { return info.shape[info.shape.size() - 2]; }
  [[nodiscard]] std::int64_t in() const { return info.shape.back(); }
};

/// All adaptable weights of a model, in the order of the manifest. Embeddings, norms, convolutions and
/// vectors are not adaptable.
[[nodiscard]] std::vector<AdaptableWeight> adaptable_weights(const ParameterManifest& manifest);
/// The adaptable weight of this name; nothing if there is none.
[[nodiscard]] std::optional<AdaptableWeight> find_adaptable(const ParameterManifest& manifest,
                                                            std::string_view name);

/// Adapter of one weight: its rank and scale.
struct AdaptedTensor {
  std::string base;       ///< name of the AdaptableWeight
  std::int64_t rank = 0;  ///< rank of the adapter, at least 1; for fused experts that of each expert
  double scale = 1;       ///< factor of the adapter's output: alpha / scale_divisor()

  bool operator==(const AdaptedTensor&) const = default;
};

/// Rule for an adapter's scale: alpha divided by the rank, or with rslora by its square root (Kalajdzievski
/// 2023).
enum class ScaleRule : bool { kByRank, kByRootOfRank };
[[nodiscard]] double scale_divisor(std::int64_t rank, ScaleRule rule);

/// LoRA adapters of a model, as PEFT's adapter_config.json describes them.
struct AdapterDescription {
  std::vector<AdaptedTensor> tensors;  ///< adapted tensors in the manifest's order; empty: no adapter
  double dropout = 0;  ///< share of A's inputs dropped while training; 0 with an adapted expert or router

  [[nodiscard]] bool empty() const { return tensors.empty(); }
  /// Adapter of a weight by its name; null if it has none.
  [[nodiscard]] const AdaptedTensor* find(std::string_view base) const;
};

/// Names of an adapter's tensors: "model.layers.0.self_attn.q_proj.lora_A.weight" and lora_B; for fused
/// experts "model.layers.0.mlp.experts.gate_up_proj.lora_A" and lora_B.
struct AdapterNames {
  std::string a, b;
};
/// Names of the adapter of tensor `tensor`, whether it is adapted or not; they begin with the name of the
/// weight in which the tensor is published.
[[nodiscard]] AdapterNames adapter_names(const ParameterManifest& manifest, int tensor);

/// Adds A and B of each adapter behind all tensors, in the tensors' type, with initial values that leave the
/// model unchanged (A uniform within 1 / sqrt(in), B zero), and freezes all other tensors. Error(kInternal)
/// for a weight that is not adaptable.
void add_adapters(ParameterManifest& manifest, const AdapterDescription& adapters);

}  // namespace sluice
