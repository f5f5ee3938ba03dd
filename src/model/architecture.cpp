#include "model/architecture.hpp"

#include "base/bytes.hpp"
#include "base/checked.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "io/file.hpp"
#include "model/families/afmoe.hpp"
#include "model/families/bailing_hybrid.hpp"
#include "model/families/bailing_moe_v2.hpp"
#include "model/families/cohere2_moe.hpp"
#include "model/families/deepseek_v2.hpp"
#include "model/families/deepseek_v3.hpp"
#include "model/families/dots1.hpp"
#include "model/families/ernie4_5_moe.hpp"
#include "model/families/exaone_moe.hpp"
#include "model/families/gemma4.hpp"
#include "model/families/glm4_moe.hpp"
#include "model/families/glm4_moe_lite.hpp"
#include "model/families/gpt_oss.hpp"
#include "model/families/granitemoe.hpp"
#include "model/families/granitemoehybrid.hpp"
#include "model/families/hunyuan_v1_moe.hpp"
#include "model/families/hy_v3.hpp"
#include "model/families/kimi_linear.hpp"
#include "model/families/laguna.hpp"
#include "model/families/lfm2_moe.hpp"
#include "model/families/mellum.hpp"
#include "model/families/mimo_v2_flash.hpp"
#include "model/families/minimax_m2.hpp"
#include "model/families/minimax_m3.hpp"
#include "model/families/mistral4.hpp"
#include "model/families/mixtral.hpp"
#include "model/families/nemotron_h.hpp"
#include "model/families/olmoe.hpp"
#include "model/families/qwen2_moe.hpp"
#include "model/families/qwen3.hpp"
#include "model/families/qwen3_5.hpp"
#include "model/families/qwen3_next.hpp"
#include "model/families/solar_open.hpp"
#include "model/families/step3p7.hpp"
#include "model/manifest_builder.hpp"
#include "model/model_directory.hpp"
#include "model/unknown_keys.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace sluice {
namespace {

constexpr std::array kArchitectures{
    Architecture{"afmoe", read_afmoe_config, describe_afmoe},
    Architecture{"bailing_hybrid", read_bailing_hybrid_config, describe_bailing_hybrid},
    Architecture{"bailing_moe_v2", read_bailing_moe_v2_config, describe_bailing_moe_v2},
    Architecture{"cohere2_moe", read_cohere2_moe_config, describe_decoder},
    Architecture{"deepseek_v2", read_deepseek_v2_config, describe_decoder},
    Architecture{"deepseek_v3", read_deepseek_v3_config, describe_deepseek_v3},
    Architecture{"deepseek_v32", read_deepseek_v32_config, describe_indexed},
    Architecture{"dots1", read_dots1_config, describe_decoder},
    Architecture{"ernie4_5_moe", read_ernie4_5_moe_config, describe_ernie4_5_moe},
    Architecture{"exaone_moe", read_exaone_moe_config, describe_exaone_moe},
    Architecture{"gemma4", read_gemma4_config, describe_gemma4},
    Architecture{"gemma4_text", read_gemma4_text_config, describe_gemma4_text},
    Architecture{"glm4_moe", read_glm4_moe_config, describe_glm4_moe},
    Architecture{"glm4_moe_lite", read_glm4_moe_lite_config, describe_deepseek_v3},
    Architecture{"glm_moe_dsa", read_glm_moe_dsa_config, describe_indexed},
    Architecture{"gpt_oss", read_gpt_oss_config, describe_gpt_oss},
    Architecture{"granitemoe", read_granitemoe_config, describe_granitemoe},
    Architecture{"granitemoehybrid", read_granitemoehybrid_config, describe_granitemoehybrid},
    Architecture{"hunyuan_v1_moe", read_hunyuan_v1_moe_config, describe_hunyuan_v1_moe},
    Architecture{"hy_v3", read_hy_v3_config, describe_hy_v3},
    Architecture{"kimi_linear", read_kimi_linear_config, describe_kimi_linear},
    Architecture{"kimi_k2", read_deepseek_v3_config, describe_deepseek_v3},
    Architecture{"kimi_k25", read_kimi_k25_config, describe_kimi_k25},
    Architecture{"laguna", read_laguna_config, describe_laguna},
    Architecture{"lfm2_moe", read_lfm2_moe_config, describe_lfm2_moe},
    Architecture{"mellum", read_mellum_config, describe_glm4_moe},
    Architecture{"mimo_v2_flash", read_mimo_v2_flash_config, describe_mimo_v2_flash},
    Architecture{"minimax_m2", read_minimax_m2_config, describe_minimax_m2},
    Architecture{"minimax_m3_vl", read_minimax_m3_vl_config, describe_minimax_m3_vl},
    Architecture{"minimax_m3_vl_text", read_minimax_m3_vl_text_config, describe_minimax_m3_vl_text},
    Architecture{"mistral3", read_mistral3_config, describe_mistral3},
    Architecture{"mistral4", read_mistral4_config, describe_decoder},
    Architecture{"mixtral", read_mixtral_config, describe_mixtral},
    Architecture{"nemotron_h", read_nemotron_h_config, describe_nemotron_h},
    Architecture{"olmoe", read_olmoe_config, describe_decoder},
    Architecture{"qwen2_moe", read_qwen2_moe_config, describe_decoder},
    Architecture{"qwen3", read_qwen3_config, describe_decoder},
    Architecture{"qwen3_moe", read_qwen3_moe_config, describe_decoder},
    Architecture{"qwen3_5", read_qwen3_5_config, describe_qwen3_5},
    Architecture{"qwen3_5_text", read_qwen3_5_text_config, describe_qwen3_5_text},
    Architecture{"qwen3_5_moe", read_qwen3_5_moe_config, describe_qwen3_5},
    Architecture{"qwen3_5_moe_text", read_qwen3_5_moe_text_config, describe_qwen3_5_text},
    Architecture{"qwen3_next", read_qwen3_next_config, describe_qwen3_next},
    Architecture{"solar_open", read_solar_open_config, describe_decoder},
    Architecture{"step3p5", read_step3p5_config, describe_step3p5},
    Architecture{"step3p7", read_step3p7_config, describe_step3p7},
};

/// A published mixture of experts that is not computed, and the blocks that it would take.
struct Unbuilt {
  const char* model_type;
  const char* needs;
};
constexpr std::array kUnbuilt{
    Unbuilt{"deepseek_v4",
            "compressed attention, several residual streams, and layers that choose experts by a table"},
    Unbuilt{"glm5_next", "several residual streams, and an indexer of pooled keys"},
    Unbuilt{"longcat_flash", "two attentions a layer, and experts that compute nothing"},
    Unbuilt{"qwen4_exp", "several residual streams, and tables of n-grams"},
};

const Architecture& find_architecture(const ConfigReader& reader) {
  const std::string type = reader.text({"model_type"});
  const auto found = std::ranges::find(kArchitectures, type, &Architecture::model_type);
  if (found != kArchitectures.end()) return *found;
  const auto unbuilt = std::ranges::find(kUnbuilt, type, &Unbuilt::model_type);
  if (unbuilt != kUnbuilt.end())
    fail({ExitCode::kBadData, "model.architecture"},
         "{}: model_type '{}' is not supported: it would take {}, which this version does not compute",
         reader.name(), type, unbuilt->needs);
  std::vector<std::string> known;
  for (const Architecture& architecture : kArchitectures) known.emplace_back(architecture.model_type);
  fail({ExitCode::kBadData, "model.architecture"},
       "{}: model_type '{}' is not supported; this version knows {}", reader.name(), printable(type),
       join_some(known, known.size()));
}

/// Refuses sizes whose product would overflow, so that later code need not think of it.
void require_sane_size(const ParameterManifest& manifest, const std::string& name) {
  constexpr std::int64_t kMaxElements = std::int64_t{1} << 48;
  std::optional<std::int64_t> total = 0;
  for (const TensorInfo& tensor : manifest.tensors()) {
    std::optional<std::int64_t> elements = 1;
    for (const std::int64_t size : tensor.shape) elements = elements ? multiply(*elements, size) : elements;
    total = total && elements ? add(*total, *elements) : std::nullopt;
    if (!total || *total > kMaxElements)
      fail({ExitCode::kBadData, "model.config_value"},
           "{}: tensor {} of shape {} makes the model larger than 2^48 elements", name, tensor.name,
           shape_text(tensor.shape));
  }
}

/// Number of a tensor's elements that multiply a given token.
std::int64_t active_elements(const ModelDescription& model, int index) {
  const TensorInfo& tensor = model.manifest[index];
  if (!is_parameter(tensor.kind)) return 0;
  if (tensor.role != Role::kExpert) return tensor.element_count();
  return tensor.element_count() / model.config.experts * model.config.experts_per_token;
}

}  // namespace

int ModelConfig::moe_layer_count() const {
  int count = 0;
  for (int layer = 0; layer < layer_count(); ++layer) count += has_experts(layer) ? 1 : 0;
  return count;
}

std::int64_t ModelConfig::moe_layer(std::int64_t among) const {
  int layer = 0;
  while (!has_experts(layer) || among-- > 0) ++layer;
  return layer;
}

ModelConfig ModelConfig::of_layer(int layer) const {
  ModelConfig own = *this;
  if (!limits_by_layer.empty()) own.swiglu_limits = limits_by_layer[static_cast<std::size_t>(layer)];
  if (heads_by_layer.empty()) return own;
  const AttentionHeads& heads = heads_by_layer[static_cast<std::size_t>(layer)];
  own.attention_heads = heads.queries;
  own.key_value_heads = heads.keys_and_values;
  own.head_dim = heads.size;
  own.values_are_keys = heads.values_are_keys;
  own.value_dim = heads.value_size;
  own.attention_sinks = heads.has_sinks;
  return own;
}

std::span<const Architecture> architectures() { return kArchitectures; }

ModelDescription describe_model_text(std::string_view config_json, const std::string& name, DType dtype) {
  const ConfigReader reader = ConfigReader::parse(config_json, name);
  const Architecture& architecture = find_architecture(reader);
  if (reader.has("auto_map"))
    log::info("{}: auto_map is ignored: no code from a model directory is ever run", name);
  ModelDescription description{architecture.read_config(reader.with(Nulls::kRefused)), {}, {}};
  description.config.model_type = architecture.model_type;
  description.config.unknown_keys = unknown_keys(reader);
  description.manifest = architecture.describe(description.config, dtype);
  require_sane_size(description.manifest, name);
  return description;
}

std::int64_t active_parameters(const ModelDescription& model) {
  std::int64_t active = 0;
  for (const int tensor : model.manifest.checkpoint_tensors()) active += active_elements(model, tensor);
  return active;
}

double training_operations(const ModelDescription& model, int lowest_layer) {
  double operations = 0;
  for (const int index : model.manifest.stored_tensors()) {
    const TensorInfo& tensor = model.manifest[index];
    const bool is_below = tensor.role == Role::kEmbedding ? lowest_layer >= 0
                                                          : tensor.layer >= 0 && tensor.layer < lowest_layer;
    operations += (2.0 + (is_below ? 0 : 2) + (tensor.frozen ? 0 : 2)) *
                  static_cast<double>(active_elements(model, index));
  }
  return operations;
}

ModelDescription describe_model(const std::filesystem::path& directory, DType dtype) {
  require_model_directory(directory);
  const std::filesystem::path file = directory / "config.json";
  return describe_model_text(read_text_file(file, 16 * kMiB), file.string(), dtype);
}

ModelDescription describe_published_model(const std::filesystem::path& directory) {
  return describe_model(directory, describe_model(directory, DType::kBFloat16).config.published_dtype);
}

}  // namespace sluice
