#include "model/rotary_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <string>
#include <vector>

namespace sluice {
namespace {

constexpr const char* kParameters = "rope_parameters";
constexpr const char* kTheta = "rope_theta";
constexpr const char* kShares = "partial_rotary_factors";
// Scaling under which a part of the pairs of a whole head turns, as fast as if all did.
constexpr const char* kProportional = "proportional";
// Kinds of layers that may have settings of their own.
constexpr const char* kFull = "full_attention";
constexpr const char* kSliding = "sliding_attention";

/// Length of the longest sequences in the training before YaRN, in tokens; given beside the other keys, it
/// counts before theirs.
double original_length(const ConfigReader& config, const ConfigReader& scaling) {
  constexpr const char* kOriginal = "original_max_position_embeddings";
  if (config.contains(kOriginal)) return static_cast<double>(config.integer({kOriginal}));
  if (scaling.contains(kOriginal)) return static_cast<double>(scaling.integer({kOriginal}));
  return static_cast<double>(config.integer({"max_position_embeddings"}));
}

/// Magnitude by yarn_get_mscale() of DeepSeek's code.
double grown(double weight, double factor) {
  return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0;
}

/// Factor of cosines and sines, which grows with the added length (section 3.4 of YaRN's paper).
double yarn_magnitude(const ConfigReader& scaling, double factor) {
  constexpr const char* kGiven = "attention_factor";
  if (scaling.has(kGiven)) return scaling.positive({kGiven});
  const auto magnitude = [&](double weight) { return grown(weight, factor); };
  const ConfigReader optional = scaling.with(Nulls::kAbsent);
  const double scale = optional.number({"mscale"}, 0.0);
  const double scale_of_all = optional.number({"mscale_all_dim"}, 0.0);
  if (scale == 0 || scale_of_all == 0) return magnitude(1);
  const double ratio = magnitude(scale) / magnitude(scale_of_all);
  if (!std::isfinite(ratio) || ratio <= 0)
    scaling.refuse("mscale", fmt::format("a number that goes with mscale_all_dim = {}", scale_of_all));
  return ratio;
}

/// Pair, as a real number, that makes as many turns in `length` positions as the key says.
double pair_of_turns(const ConfigReader& scaling, const char* key, double otherwise, double length,
                     const RotaryConfig& rotary) {
  const auto dim = static_cast<double>(rotary.dim);
  const double turns = scaling.with(Nulls::kAbsent).positive({key}, otherwise);
  const double pair = dim * std::log(length / (turns * 2 * std::numbers::pi)) / (2 * std::log(rotary.theta));
  if (!std::isfinite(pair)) scaling.refuse(key, "a number of turns");
  return pair;
}

void read_yarn(const ConfigReader& config, const ConfigReader& scaling, RotaryConfig& rotary) {
  if (rotary.theta <= 1) (scaling.has("rope_theta") ? scaling : config).refuse("rope_theta", "more than 1");
  rotary.scaling = RotaryScaling::kYarn;
  rotary.factor = scaling.positive({"factor"});
  rotary.magnitude = yarn_magnitude(scaling, rotary.factor);
  const double length = original_length(config, scaling);
  double begin = pair_of_turns(scaling, "beta_fast", 32, length, rotary);
  double end = pair_of_turns(scaling, "beta_slow", 1, length, rotary);
  constexpr const char* kTruncate = "truncate";
  if (!scaling.is_null(kTruncate) && scaling.boolean({kTruncate}, true)) {
    begin = std::floor(begin);
    end = std::ceil(end);
  }
  rotary.blend_begin = std::max(begin, 0.0);
  rotary.blend_end = std::min(end, static_cast<double>(rotary.dim - 1));
  // Equal ends would divide by zero, so the line becomes steep instead.
  if (rotary.blend_begin == rotary.blend_end) rotary.blend_end += 0.001;
}

void read_llama3(const ConfigReader& config, const ConfigReader& scaling, RotaryConfig& rotary) {
  rotary.scaling = RotaryScaling::kLlama3;
  rotary.factor = scaling.positive({"factor"});
  rotary.few_turns = scaling.positive({"low_freq_factor"});
  rotary.many_turns = scaling.positive({"high_freq_factor"});
  rotary.original_length = original_length(config, scaling);
  if (rotary.many_turns <= rotary.few_turns)
    scaling.refuse("high_freq_factor", fmt::format("more than low_freq_factor = {}", rotary.few_turns));
}

/// Name of the scaling, at the first of its two keys that is there.
const char* type_key(const ConfigReader& scaling) {
  return scaling.contains("rope_type") ? "rope_type" : "type";
}
std::string type_of(const ConfigReader& scaling) { return scaling.text({type_key(scaling)}, "default"); }

void read_scaling(const ConfigReader& config, const ConfigReader& scaling, RotaryConfig& rotary) {
  const std::string type = type_of(scaling);
  if (type == "default") return;
  if (type == "yarn") return read_yarn(config, scaling, rotary);
  if (type == "llama3") return read_llama3(config, scaling, rotary);
  if (type == kProportional && scaling.positive({"factor"}, 1.0) == 1) return;
  if (type != "linear")
    scaling.refuse(
        type_key(scaling),
        "'default', 'linear', 'yarn', 'llama3' or 'proportional' with factor 1: no other scaling is supported");
  rotary.scaling = RotaryScaling::kLinear;
  rotary.factor = scaling.positive({"factor"});
}

/// The object at a key; nothing if it is missing or empty.
std::optional<ConfigReader> nested_settings(const ConfigReader& config, const char* key) {
  std::optional<ConfigReader> nested = config.object({key});
  if (!nested || nested->is_empty()) return std::nullopt;
  if (nested->holds_objects())
    config.refuse(key, "settings that hold for all layers: each kind of layer with its own is not supported");
  return nested;
}

/// The number in a list that has one for each layer, the same for all layers of a kind.
double number_of_kind(const ConfigReader& config, const char* key, AttentionKind kind,
                      const ModelConfig& model) {
  const std::vector<double> numbers = read_numbers_by_layer(config, key, model);
  if (numbers.empty()) config.refuse(key, fmt::format("one for each of {} layers", model.layer_count()));
  const std::int64_t first = std::ranges::find(model.attention, kind) - model.attention.begin();
  for (std::size_t layer = 0; layer < numbers.size(); ++layer)
    if (model.attention[layer] == kind && numbers[layer] != numbers[static_cast<std::size_t>(first)])
      config.refuse(key, "one number for all layers of a kind in layer_types");
  return numbers[static_cast<std::size_t>(first)];
}

/// The settings of layers of a kind: theta of `thetas`, shares of `config`, and this scaling.
RotaryConfig read_lists(const ConfigReader& config, const ConfigReader& thetas,
                        const std::optional<ConfigReader>& scaling, double theta, AttentionKind kind,
                        const ModelConfig& model) {
  RotaryConfig rotary;
  rotary.theta = thetas.holds_list(kTheta) ? number_of_kind(thetas, kTheta, kind, model)
                                           : thetas.positive({kTheta}, theta);
  if (rotary.theta <= 0) thetas.refuse(kTheta, "numbers above 0");
  const bool has_shares = !config.numbers({kShares}).empty();
  rotary.dim = turning_entries(
      config, kShares, has_shares ? number_of_kind(config, kShares, kind, model) : 1.0, model.head_dim);
  if (scaling) read_scaling(config, *scaling, rotary);
  return rotary;
}

RotaryConfig read_with(const std::optional<ConfigReader>& nested, const ConfigReader& config,
                       const CommonDefaults& defaults, std::int64_t head_dim) {
  const auto holder = [&](const char* key) -> const ConfigReader& {
    return nested && nested->contains(key) ? *nested : config;
  };
  RotaryConfig rotary;
  rotary.theta = holder(kTheta).positive({kTheta}, defaults.rope_theta);

  constexpr const char* kShare = "partial_rotary_factor";
  // Beside all other keys null is the whole head, whatever the default.
  const bool is_whole =
      defaults.ignores_rotary_share || (&holder(kShare) == &config && config.is_null(kShare));
  const double share =
      is_whole ? 1.0 : holder(kShare).number({kShare}, defaults.partial_rotary_factor.value_or(1.0));
  if (!defaults.partial_rotary_factor && share != 1.0) holder(kShare).refuse(kShare, "1");
  const bool is_proportional = nested && type_of(*nested) == kProportional;
  rotary.dim = turning_entries(holder(kShare), kShare, share, head_dim, is_proportional);
  if (nested && defaults.takes_ntk_alpha && type_of(*nested) == "dynamic" && nested->has("alpha")) {
    const auto dim = static_cast<double>(rotary.dim);
    static_cast<void>(nested->positive({"factor"}));  // asked for by transformers, and without an effect
    rotary.theta *= std::pow(nested->positive({"alpha"}), dim / (dim - 2));
    if (!std::isfinite(rotary.theta) || rotary.theta <= 0)
      nested->refuse("alpha", "a number that leaves the embedding finite");
  } else if (nested) {
    read_scaling(config, *nested, rotary);
  }
  if (is_proportional) {
    rotary.turning_pairs = rotary.dim / 2;
    rotary.dim = head_dim;
  }
  return rotary;
}

}  // namespace

std::int64_t turning_entries(const ConfigReader& holder, const char* key, double share, std::int64_t head_dim,
                             bool may_be_odd) {
  if (share <= 0 || share > 1) holder.refuse(key, "a number above 0, at most 1");
  const auto dim = static_cast<std::int64_t>(static_cast<double>(head_dim) * share);
  if (dim < 2 || (dim % 2 != 0 && !may_be_odd))
    holder.refuse(key, fmt::format("an even part of head_dim = {}", head_dim));
  return dim;
}

void refuse_rope_scaling(const ConfigReader& config, Nulls nulls) {
  if (nulls == Nulls::kRefused ? config.contains("rope_scaling") : config.has("rope_scaling"))
    config.refuse("rope_scaling", fmt::format("none, beside settings by kind of layer in {}", kParameters));
}

void set_rotary_of_kinds(ModelConfig& model,
                         const std::function<RotaryConfig(AttentionKind, std::int64_t)>& read) {
  const auto first_of = [&](AttentionKind kind) { return std::ranges::find(model.attention, kind); };
  const auto read_kind = [&](AttentionKind kind) {
    return read(kind, model.of_layer(static_cast<int>(first_of(kind) - model.attention.begin())).head_dim);
  };
  const bool has_full = first_of(AttentionKind::kFull) != model.attention.end();
  const bool has_windows = first_of(AttentionKind::kSliding) != model.attention.end();
  model.rotary = read_kind(has_full ? AttentionKind::kFull : AttentionKind::kSliding);
  if (has_windows && has_full) model.sliding_rotary = read_kind(AttentionKind::kSliding);
}

std::optional<ConfigReader> rotary_settings(const ConfigReader& config, const char* otherwise) {
  if (std::optional<ConfigReader> scaling = nested_settings(config, "rope_scaling")) return scaling;
  if (otherwise == nullptr || config.has(kParameters)) return nested_settings(config, kParameters);
  return ConfigReader::parse(otherwise, fmt::format("{}: default {}", config.name(), kParameters));
}

RotaryConfig read_rotary_config(const ConfigReader& config, const CommonDefaults& defaults,
                                std::int64_t head_dim) {
  const RotaryConfig rotary =
      read_with(rotary_settings(config, defaults.rope_parameters), config, defaults, head_dim);
  // transformers uses rope_scaling alone, and ignores even a theta that only rope_parameters has: hardly what
  // the writer of both meant.
  const std::optional<ConfigReader> parameters = nested_settings(config, kParameters);
  if (nested_settings(config, "rope_scaling") && parameters &&
      rotary != read_with(parameters, config, defaults, head_dim))
    config.refuse("rope_scaling",
                  "the same embedding as rope_parameters, rope_theta included, or only one of the two: "
                  "transformers ignores rope_parameters beside it");
  return rotary;
}

void read_rotary_by_kind(const ConfigReader& config, const char* otherwise, ModelConfig& model,
                         std::optional<double> partial_rotary_factor) {
  const ConfigReader all = config.object({kParameters})
                               .value_or(ConfigReader::parse(
                                   otherwise, fmt::format("{}: default {}", config.name(), kParameters)));
  refuse_rope_scaling(config, Nulls::kRefused);
  read_rotary_of_kinds(config, all, model, partial_rotary_factor);
}

void read_rotary_of_kinds(const ConfigReader& config, const ConfigReader& all, ModelConfig& model,
                          std::optional<double> partial_rotary_factor) {
  for (const std::string& key : all.keys())
    if (key != kFull && key != kSliding)
      all.refuse(key.c_str(), fmt::format("settings of '{}' and '{}' alone", kFull, kSliding));
  set_rotary_of_kinds(model, [&](AttentionKind kind, std::int64_t head_dim) {
    const char* const key = kind == AttentionKind::kFull ? kFull : kSliding;
    const std::optional<ConfigReader> settings = all.object({key});
    if (!settings) all.refuse(key, "the rotary settings of these layers");
    if (!settings->has(kTheta)) settings->refuse(kTheta, "a number above 0");
    return read_with(settings, config, {.partial_rotary_factor = partial_rotary_factor}, head_dim);
  });
}

void read_rotary_by_layer(const ConfigReader& config, double theta, ModelConfig& model) {
  const std::optional<ConfigReader> parameters = config.object({kParameters});
  if (parameters && parameters->holds_objects()) {
    for (const char* key : {kTheta, kShares})
      if (config.contains(key))
        config.refuse(key, fmt::format("none, beside those by kind of layer in {}", kParameters));
    refuse_rope_scaling(config, Nulls::kAbsent);
    return read_rotary_of_kinds(config, *parameters, model, 1.0);
  }
  const std::optional<ConfigReader> scaling = nested_settings(config, "rope_scaling");
  for (const char* key : {kTheta, "partial_rotary_factor"})
    if (scaling && scaling->contains(key)) scaling->refuse(key, "none, as lists by layer have it");
  set_rotary_of_kinds(model, [&](AttentionKind kind, std::int64_t) {
    const bool is_full = kind == AttentionKind::kFull;
    const RotaryConfig rotary =
        read_lists(config, config, is_full ? scaling : std::nullopt, theta, kind, model);
    if (parameters && !parameters->is_empty() &&
        rotary != read_lists(config, parameters->contains(kTheta) ? *parameters : config,
                             is_full ? parameters : std::nullopt, theta, kind, model))
      config.refuse(kParameters, "what rope_theta and rope_scaling say beside it: transformers ignores it");
    return rotary;
  });
}

double rotary_dim_share(const ConfigReader& config, std::int64_t default_head_dim) {
  const std::int64_t head_dim = config.integer({"head_dim"}, default_head_dim);
  const std::int64_t turning = config.with(Nulls::kAbsent).integer({"rotary_dim"}, head_dim);
  return static_cast<double>(turning) / static_cast<double>(head_dim);
}

double read_score_factor(const ConfigReader& config, const char* otherwise) {
  const std::optional<ConfigReader> settings = rotary_settings(config, otherwise);
  if (!settings || type_of(*settings) == "default") return 1;
  const double weight = settings->with(Nulls::kAbsent).number({"mscale_all_dim"}, 0.0);
  if (weight == 0) return 1;
  const double factor = grown(weight, settings->positive({"factor"}));
  return factor * factor;
}

}  // namespace sluice
