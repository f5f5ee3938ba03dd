// Reads keys of config.json that all decoders share.
#pragma once

#include "model/config_reader.hpp"
#include "model/model_config.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Defaults of an architecture for keys that are missing.
struct CommonDefaults {
  /// Number of layers where other keys tell it; num_hidden_layers may be missing then, and must agree.
  std::optional<std::int64_t> layers{};
  /// Key heads by default; nothing: as many as attention heads.
  std::optional<std::int64_t> key_value_heads{};
  const char* key_value_heads_key = "num_key_value_heads";  ///< key of their number
  bool null_key_value_heads = false;  ///< whether null is allowed, for as many as attention heads
  bool null_head_dim = false;         ///< whether null is allowed as a head size, for the default
  /// Head size by default; nothing: hidden size over attention heads.
  std::optional<std::int64_t> head_dim{};
  /// Padding token by default; nothing: none, as null says in any case.
  std::optional<std::int64_t> padding_token{};
  /// Share of a head that is rotated, by default; nothing: all of it, and no key may say less.
  std::optional<double> partial_rotary_factor{};
  /// Whether all of a head is rotated whatever partial_rotary_factor says.
  bool ignores_rotary_share = false;
  bool takes_attention_bias = false;  ///< whether attention_bias may be true
  /// Whether 'dynamic' rotary scaling may have an alpha, which stretches theta whatever the length.
  bool takes_ntk_alpha = false;
  /// Whether attention_dropout may be above 0: published by models that are not trained with it here.
  bool ignores_attention_dropout = false;
  /// Another name that hidden_act may have for what the family's MLPs compute; null: none.
  const char* own_activation = nullptr;
  const char* rms_norm_eps_key = "rms_norm_eps";
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
  /// JSON of the default rotary settings, if the file has neither these nor rope_scaling; null: none.
  const char* rope_parameters = nullptr;
  /// Whether rope_parameters has settings for each kind of layer, which the family reads when the kinds are
  /// known, by read_rotary_by_kind().
  bool rotary_by_kind = false;
};

/// Reads sizes, attention, rotary embedding, norms and element type. All layers are dense and have full
/// attention until the architecture says otherwise. Error(kBadData) for settings that would change the
/// numbers and that no block computes.
[[nodiscard]] ModelConfig read_common_config(const ConfigReader& config, const CommonDefaults& defaults);

/// Reads the router and its experts, whose width is at `width_key`. The architecture decides which layers
/// have them.
void read_expert_config(const ConfigReader& config, const char* width_key, ModelConfig& model);

/// Reads which layers have experts, as Qwen2MoeDecoderLayer and Qwen3MoeDecoderLayer decide it by
/// decoder_sparse_step and mlp_only_layers.
void read_sparse_layers(const ConfigReader& config, ModelConfig& model);

/// Reads the number of experts that every token passes through, from n_shared_experts or num_shared_experts;
/// without these keys `otherwise`, or an error if that is nothing. Together they are one expert of their
/// total width. The width of routed experts must be known already.
void read_shared_experts(const ConfigReader& config, std::optional<std::int64_t> otherwise,
                         ModelConfig& model);

/// Reads n_group, or num_expert_group, and topk_group; without these keys the given defaults, or an error if there
/// are none. The number of experts, and of scores that rank a group, must be known already.
void read_expert_groups(const ConfigReader& config, std::optional<std::int64_t> groups,
                        std::optional<std::int64_t> chosen_groups, ModelConfig& model);

/// Defaults of norm_topk_prob, n_group, topk_group and routed_scaling_factor for missing keys.
struct SigmoidRouterDefaults {
  bool normalize = false;
  std::int64_t groups = 1, chosen_groups = 1;
  double scale = 1;
  bool null_scale = false;  ///< whether null is allowed as a scale, for the default
};
/// Reads the router of DeepSeek-V3 and related models (DeepseekV3TopkRouter): sigmoids, a correction bias,
/// groups of experts and a scale. The number of experts must be known already.
void read_sigmoid_router(const ConfigReader& config, const SigmoidRouterDefaults& defaults,
                         ModelConfig& model);

/// Reads which layers have experts from mlp_layer_types; without it, those after the first
/// first_k_dense_replace layers, or the first `dense` without that key.
void read_first_dense_layers(const ConfigReader& config, std::int64_t dense, ModelConfig& model);

/// Refuses sliding windows, which layer_types may ask for. If the architecture's class reads
/// max_window_layers, its default is given, and windows that layers from there on have because of
/// sliding_window are refused too.
void refuse_windows(const ConfigReader& config, std::optional<std::int64_t> max_window_layers,
                    const ModelConfig& model);

/// Reads the token mixer of each layer from layer_types, where a layer is "full_attention" or, with the mixer
/// `other`, `other_name`. Returns whether the key is there; without it the mixers stay as they are.
bool read_layer_mixers(const ConfigReader& config, std::string_view other_name, AttentionKind other,
                       ModelConfig& model);

/// Reads from layer_types which layers have a window; without the key the kinds stay as they are. Then, if any
/// has one, its size: `window` without the key sliding_window, or an error if that is nothing.
void read_windows(const ConfigReader& config, std::optional<std::int64_t> window, ModelConfig& model);

/// Reads the kind of each layer at `key`, and of layers for multi-token prediction behind them if these are
/// known, which are left out; nothing if the key is missing or null.
[[nodiscard]] std::optional<std::vector<std::string>> read_layer_kinds(const ConfigReader& config,
                                                                       const char* key,
                                                                       const ModelConfig& model);

/// Two spellings of which layers are of a kind: a list of names at `kinds`, of which `set` is that kind and `unset`
/// the other; a list of numbers at `flags`, 0 for the other.
struct LayerSpellings {
  const char *kinds, *unset, *set, *flags;
};
/// Reads whether each layer is of the kind; without either spelling they are as `otherwise`. `flags` is the table
/// that has the numbers; these must not contradict the names.
[[nodiscard]] std::vector<bool> read_layers_of_kind(const ConfigReader& config, const ConfigReader& flags,
                                                    const LayerSpellings& keys,
                                                    const std::vector<bool>& otherwise,
                                                    const ModelConfig& model);

/// The settings that a layer alone has in per_layer_config, as transformers 5 writes it; nothing if it has none.
[[nodiscard]] std::optional<ConfigReader> settings_of_layer(const ConfigReader& config, int layer);

/// Reads a list of numbers at `key`, one for each layer and perhaps for layers for multi-token prediction behind
/// them, which are left out; empty without the key. A null in the list counts as `null`, or is refused.
[[nodiscard]] std::vector<double> read_numbers_by_layer(const ConfigReader& config, const char* key,
                                                        const ModelConfig& model,
                                                        std::optional<double> null = {});

/// Reads limits of MLPs by layer, behind the silu of gates, from two lists in which 0 or null is none: those of
/// routed experts at one key, those of shared experts at the other.
void read_silu_limits(const ConfigReader& config, const char* experts_key, const char* shared_key,
                      ModelConfig& model);

/// Refuses a number at `key` other than that at `other`, another spelling of it, of at least `minimum`.
void expect_same_number(const ConfigReader& config, const char* key, const char* other,
                        std::int64_t minimum = 1);

/// Reads the number of layers for multi-token prediction, of which no number of the model depends.
[[nodiscard]] std::int64_t read_prediction_layers(const ConfigReader& config, const char* key,
                                                  std::int64_t otherwise);

/// Reads time_step_limit, which is at `key`; without it Mamba-2's time steps have no limits but 0.
void read_time_step_limit(const ConfigReader& config, const char* key, Mamba2Config& mamba);

/// Whether the text at `key` is `text`, and not `otherwise`, as it is without the key; any other is refused.
[[nodiscard]] bool reads_text(const ConfigReader& config, const char* key, const std::string& text,
                              const std::string& otherwise);

/// Refuses a text at `key` that is not `expected`; a key that is missing or null is allowed.
void expect_text(const ConfigReader& config, const char* key, const std::string& expected);

/// Element type of the published weights; bfloat16 if no key says it.
[[nodiscard]] DType read_published_dtype(const ConfigReader& config);

}  // namespace sluice
