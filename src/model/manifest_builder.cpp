#include "model/manifest_builder.hpp"

#include "model/blocks/dense_mlp.hpp"
#include "model/blocks/embedding_and_head.hpp"
#include "model/blocks/layer_blocks.hpp"
#include "model/blocks/norms.hpp"
#include "model/blocks/rotary.hpp"
#include "model/blocks/shared_expert.hpp"

#include <string>
#include <utility>

namespace sluice {
namespace {

constexpr int kOutsideLayers = -1;

class ManifestBuilder {
 public:
  explicit ManifestBuilder(DType dtype) : dtype_(dtype) {}

  void add(const BlockTensor& tensor, int layer) {
    manifest_.add(
        {.name = layer == kOutsideLayers ? std::string(tensor.name) : layer_tensor_name(layer, tensor.name),
         .shape = tensor.shape,
         .dtype = tensor.kind == TensorKind::kParameter ? dtype_ : DType::kFloat32,
         .role = tensor.role,
         .layer = layer,
         .kind = tensor.kind,
         .tied_to = std::string(tensor.tied_to),
         .initial = tensor.initial});
  }
  void add(const std::vector<BlockTensor>& tensors, int layer) {
    for (const BlockTensor& tensor : tensors) add(tensor, layer);
  }
  [[nodiscard]] ParameterManifest take() { return std::move(manifest_); }

 private:
  DType dtype_;
  ParameterManifest manifest_;
};

}  // namespace

const blocks::SwigluNames& mlp_of_all_tokens(const ModelConfig& config, int layer) {
  return config.has_experts(layer) ? blocks::shared_expert::names(config) : blocks::dense_mlp::kNames;
}

void publish_as(std::string name, const std::vector<std::string>& tensors, ParameterManifest& manifest,
                JoinedIn in) {
  std::vector<JoinedRows> parts;
  for (const std::string& tensor : tensors)
    parts.push_back({tensor, 0, manifest[manifest.find(tensor).value()].shape.front()});
  manifest.add_joined(std::move(name), 1, parts, in);
}

ParameterManifest describe_decoder(const ModelConfig& config, DType dtype) {
  ManifestBuilder builder(dtype);
  builder.add(blocks::embedding_and_head::embedding_tensor(config), kOutsideLayers);
  for (int layer = 0; layer < config.layer_count(); ++layer) builder.add(layer_tensors(config, layer), layer);
  builder.add(blocks::norms::final_tensor(config), kOutsideLayers);
  builder.add(blocks::embedding_and_head::head_tensor(config), kOutsideLayers);
  builder.add(blocks::rotary::tensors(config), kOutsideLayers);
  ParameterManifest manifest = builder.take();
  manifest.set_prediction_layers({config.layer_count(), config.layer_count() + config.prediction_layers});
  return manifest;
}

}  // namespace sluice
