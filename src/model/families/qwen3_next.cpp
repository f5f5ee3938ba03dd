#include "model/families/qwen3_next.hpp"

#include "model/common_config.hpp"
#include "model/families/qwen3_5.hpp"
#include "model/manifest_builder.hpp"

namespace sluice {

ModelConfig read_qwen3_next_config(const ConfigReader& config) {
  ModelConfig model = read_hybrid_config(config, 2);
  model.intermediate_size = config.integer({"intermediate_size"});
  read_expert_config(config, "moe_intermediate_size", model);
  model.shared_expert_intermediate_size = config.integer({"shared_expert_intermediate_size"});
  model.shared_expert_gate = true;
  model.router.normalize = config.boolean({"norm_topk_prob"}, true);
  read_sparse_layers(config, model);
  return model;
}

ParameterManifest describe_qwen3_next(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_decoder(config, dtype);
  manifest.add_foreign_part(ForeignPart::kMultiTokenPrediction);
  return manifest;
}

}  // namespace sluice
