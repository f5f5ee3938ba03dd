// Reads the rotary keys of a config.json.
#pragma once

#include "model/common_config.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

#include <cstdint>
#include <functional>
#include <optional>

namespace sluice {

/// Reads theta, the share of a head that turns, and the scaling: default, linear, proportional or YaRN (arXiv
/// 2309.00071), with the rules of transformers' modeling_rope_utils.py. Keys lie in rope_parameters or rope_scaling,
/// or in older files beside all others. Error(kBadData) for every other scaling, for settings of single layers, and
/// where rope_parameters and rope_scaling differ.
[[nodiscard]] RotaryConfig read_rotary_config(const ConfigReader& config, const CommonDefaults& defaults,
                                              std::int64_t head_dim);

/// Entries that turn of a head, by the share of it that `key` of `holder` says; with an odd number of pairs if
/// `may_be_odd`.
[[nodiscard]] std::int64_t turning_entries(const ConfigReader& holder, const char* key, double share,
                                           std::int64_t head_dim, bool may_be_odd = false);

/// Refuses rope_scaling beside settings by kind of layer. kRefused: null too, with which transformers 5.24 fails
/// for most families.
void refuse_rope_scaling(const ConfigReader& config, Nulls nulls);

/// Sets the embedding of each kind of layer that the model has to what `read` makes of the kind and its head size.
void set_rotary_of_kinds(ModelConfig& model,
                         const std::function<RotaryConfig(AttentionKind, std::int64_t)>& read);

/// Reads the settings of each kind of layer that the model has from rope_parameters: {"full_attention": {...},
/// "sliding_attention": {...}}; `otherwise` stands for it where it is missing or null. YaRN's truncate is read with
/// its kind; transformers 5.24 looks for it beside the kinds, and so truncates always. `partial_rotary_factor`: as in
/// CommonDefaults.
void read_rotary_by_kind(const ConfigReader& config, const char* otherwise, ModelConfig& model,
                         std::optional<double> partial_rotary_factor = {});
/// Reads the same from `all`, such an object by kind of layer.
void read_rotary_of_kinds(const ConfigReader& config, const ConfigReader& all, ModelConfig& model,
                          std::optional<double> partial_rotary_factor);

/// Reads the settings of each kind of layer as read_rotary_by_kind() does, or from lists, of which layers of one kind
/// have equal entries: rope_theta, perhaps one number for all layers and `theta` without the key, and
/// partial_rotary_factors. rope_scaling is that of full attention then; rope_parameters with other numbers than these
/// are refused, as transformers ignores them.
void read_rotary_by_layer(const ConfigReader& config, double theta, ModelConfig& model);

/// Share of a head that is rotated, from rotary_dim, a number of its head_dim entries; 1 without that key.
[[nodiscard]] double rotary_dim_share(const ConfigReader& config, std::int64_t default_head_dim);

/// The settings that the embedding is made of, as transformers chooses them: rope_scaling, unless it is missing
/// or empty, else rope_parameters, for which `otherwise`, a JSON object or null, stands where it is missing or
/// null. Nothing: the plain embedding.
[[nodiscard]] std::optional<ConfigReader> rotary_settings(const ConfigReader& config, const char* otherwise);

/// Factor of the scores of latent attention, (0.1 mscale_all_dim ln(factor) + 1)^2, under any scaling that
/// has mscale_all_dim; else 1. `otherwise` as in rotary_settings().
[[nodiscard]] double read_score_factor(const ConfigReader& config, const char* otherwise);

}  // namespace sluice
