// Keys of config.json that all decoders here share.
#pragma once

#include "model/config_reader.hpp"
#include "model/model_config.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace sluice {

/// Defaults of an architecture for keys that are missing.
struct CommonDefaults {
  /// Key heads by default; nothing: as many as attention heads.
  std::optional<std::int64_t> key_value_heads{};
  bool null_key_value_heads = false;  ///< null is taken too, for as many as attention heads
  /// Head size by default; nothing: hidden size over attention heads.
  std::optional<std::int64_t> head_dim{};
  /// Padding token by default; nothing: none, as null says in any case.
  std::optional<std::int64_t> padding_token{};
  /// Rotated share of a head by default; nothing: all of it, and no key may say less.
  std::optional<double> partial_rotary_factor{};
  bool takes_attention_bias = false;  ///< attention_bias may be true
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
  const char* rope_parameters =
      nullptr;  ///< JSON, where the file has neither these nor rope_scaling; null: none
};

/// Sizes, attention, rotary embedding, norms and element type. All layers are dense and attend in full until
/// the architecture says otherwise. Error(kBadData) for settings that would change the numbers and that no
/// block computes.
[[nodiscard]] ModelConfig read_common_config(const ConfigReader& config, const CommonDefaults& defaults);

/// The router and its experts, whose width `width_key` says. Which layers have them is the architecture's to
/// say.
void read_expert_config(const ConfigReader& config, const char* width_key, ModelConfig& model);

/// Reads which layers have experts, as Qwen2MoeDecoderLayer and Qwen3MoeDecoderLayer decide it by
/// decoder_sparse_step and mlp_only_layers.
void read_sparse_layers(const ConfigReader& config, ModelConfig& model);

/// n_shared_experts or num_shared_experts experts that every token passes, `otherwise` of them where no key
/// says it, or an error without that. They are one of their width together. The width of experts must be
/// known already.
void read_shared_experts(const ConfigReader& config, std::optional<std::int64_t> otherwise,
                         ModelConfig& model);

/// n_group and topk_group, or what is given for a key that is not there; an error where nothing is. The
/// experts, and how many scores rank a group, must be known already.
void read_expert_groups(const ConfigReader& config, std::optional<std::int64_t> groups,
                        std::optional<std::int64_t> chosen_groups, ModelConfig& model);

/// Defaults of norm_topk_prob, n_group, topk_group and routed_scaling_factor where no key says them.
struct SigmoidRouterDefaults {
  bool normalize = false;
  std::int64_t groups = 1, chosen_groups = 1;
  double scale = 1;
};
/// The router of DeepSeek-V3 and its relatives (DeepseekV3TopkRouter): sigmoids, a correction bias, groups of
/// experts and a scale. The experts must be known already.
void read_sigmoid_router(const ConfigReader& config, const SigmoidRouterDefaults& defaults,
                         ModelConfig& model);

/// Reads which layers have experts from mlp_layer_types, or else takes those after the first
/// first_k_dense_replace layers, `dense` of them where no key says it.
void read_first_dense_layers(const ConfigReader& config, std::int64_t dense, ModelConfig& model);

/// Refuses sliding windows, which layer_types may ask for. An architecture whose class reads
/// max_window_layers gives its default, and the windows that layers from there on have where sliding_window
/// is set are refused too.
void refuse_windows(const ConfigReader& config, std::optional<std::int64_t> max_window_layers,
                    const ModelConfig& model);

/// Refuses a text at the key that is not `expected`; none is as good.
void expect_text(const ConfigReader& config, const char* key, const std::string& expected);

/// Element type of the published weights; bfloat16 if no key says it.
[[nodiscard]] DType read_published_dtype(const ConfigReader& config);

}  // namespace sluice
