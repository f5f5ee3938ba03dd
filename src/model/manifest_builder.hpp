// The tensors that decoders have in common, for the architectures to put together.
#pragma once

#include "manifest/manifest.hpp"
#include "model/model_config.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sluice {

/// Adds tensors with the fields they share.
class ManifestBuilder {
 public:
  /// Untrained, a block norm multiplies with 1, whichever way the model writes that down.
  ManifestBuilder(const ModelConfig& config, DType dtype)
      : dtype_(dtype),
        block_norm_(config.zero_centred_norms ? InitialValues::kZeros : InitialValues::kOnes) {}

  /// Names that follow are those of layer `layer`; -1 outside the layers.
  void in_layer(int layer) { layer_ = layer; }
  void add(const std::string& name, std::vector<std::int64_t> shape, Role role, std::string tied_to = {},
           InitialValues initial = InitialValues::kByRole);
  /// The weight [size] of a norm that the model's zero_centred_norms speaks of.
  void add_block_norm(const std::string& name, std::int64_t size);
  /// A float32 buffer outside the layers that every rank computes.
  void add_computed(std::string name, std::vector<std::int64_t> shape);
  [[nodiscard]] ParameterManifest take() { return std::move(manifest_); }

 private:
  DType dtype_;
  InitialValues block_norm_;
  int layer_ = -1;
  ParameterManifest manifest_;
};

/// Grouped-query attention with the model's norms of queries and keys. With an output gate q_proj has a gate
/// of [head_dim] beside each head's query.
void add_attention(ManifestBuilder& builder, const ModelConfig& config);
void add_router(ManifestBuilder& builder, const ModelConfig& config);
/// All of a layer's experts, fused.
void add_experts(ManifestBuilder& builder, const ModelConfig& config);
/// `name`.{gate,up,down}_proj.weight of a feed-forward part of this width.
void add_swiglu(ManifestBuilder& builder, const std::string& name, std::int64_t width, std::int64_t hidden,
                Role role);

/// The whole decoder in the order of transformers' module tree: embedding, layers, norm, head, rotary tables.
/// `add_blocks` adds what a layer holds beside its two norms.
[[nodiscard]] ParameterManifest describe_decoder(
    const ModelConfig& config, DType dtype,
    const std::function<void(ManifestBuilder& builder, std::size_t layer)>& add_blocks);

}  // namespace sluice
