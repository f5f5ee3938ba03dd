#include "model/common_config.hpp"

#include "model/quantization_config.hpp"
#include "model/rotary_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace sluice {
namespace {

// Largest number of layers: above that of any model, and far below one that makes a description slow.
constexpr std::int64_t kMaxLayers = 10'000;
constexpr std::int64_t kMaxExperts = 65'536;

// Spellings of the number of experts, and of those that a token chooses.
constexpr ConfigReader::Keys kExperts{"num_experts", "num_local_experts", "n_routed_experts",
                                      "moe_num_experts"};
constexpr ConfigReader::Keys kChosenExperts{"num_experts_per_tok", "moe_k", "top_k_experts",
                                            "num_experts_per_token", "moe_top_k"};

/// Refuses settings that would change the numbers and that no block computes.
void refuse_unsupported(const ConfigReader& config, const CommonDefaults& defaults) {
  const std::string activation = config.text({"hidden_act"}, "silu"),
                    own = defaults.own_activation == nullptr ? "silu" : defaults.own_activation;
  if (activation != "silu" && activation != own) config.refuse("hidden_act", fmt::format("'{}'", own));
  if (!defaults.takes_attention_bias && config.boolean({"attention_bias"}, false))
    config.refuse("attention_bias", "false");
  if (config.boolean({"use_sliding_window"}, false)) config.refuse("use_sliding_window", "false");
  if (!defaults.ignores_attention_dropout && config.number({"attention_dropout"}, 0.0) != 0.0)
    config.refuse("attention_dropout", "0");
}

/// Number of key heads. Sizes have no defaults of ours; this one has transformers' default, which differs
/// between architectures.
std::int64_t read_key_value_heads(const ConfigReader& config, const CommonDefaults& defaults,
                                  std::int64_t attention_heads) {
  const char* const key = defaults.key_value_heads_key;
  if (config.is_null(key) && defaults.null_key_value_heads) return attention_heads;
  const std::int64_t heads = config.integer({key}, defaults.key_value_heads.value_or(attention_heads));
  if (attention_heads % heads != 0)
    config.refuse(key, fmt::format("a divisor of num_attention_heads = {}{}", attention_heads,
                                   config.has(key) ? "" : fmt::format("; the default is {}", heads)));
  return heads;
}

void read_heads(const ConfigReader& config, const CommonDefaults& defaults, ModelConfig& model) {
  model.attention_heads = config.integer({"num_attention_heads"});
  model.key_value_heads = read_key_value_heads(config, defaults, model.attention_heads);
  model.head_dim =
      config.with(defaults.null_head_dim ? Nulls::kAbsent : Nulls::kRefused)
          .integer({"head_dim"}, defaults.head_dim.value_or(model.hidden_size / model.attention_heads));
  // A hidden size below the number of heads makes the default 0.
  if (model.head_dim < 2 || model.head_dim % 2 != 0) config.refuse("head_dim", "an even number above 0");
}

std::size_t read_layer_count(const ConfigReader& config, std::optional<std::int64_t> told) {
  constexpr const char* kKey = "num_hidden_layers";
  const ConfigReader reader = told ? config.with(Nulls::kAbsent) : config;
  const std::int64_t layers = reader.integer({kKey}, told, 1, kMaxLayers);
  if (layers > kMaxLayers || (told && layers != *told))
    config.refuse(kKey, fmt::format("{}, as other keys tell, and at most {}", told.value_or(1), kMaxLayers));
  return static_cast<std::size_t>(layers);
}

/// Negative padding tokens count from the end, as in torch.nn.Embedding.
std::int64_t read_padding_token(const ConfigReader& config, std::optional<std::int64_t> otherwise,
                                std::int64_t vocab_size) {
  constexpr const char* kKey = "pad_token_id";
  if (config.is_null(kKey) || (!otherwise && !config.has(kKey))) return -1;
  const std::int64_t token = config.integer({kKey}, otherwise, -vocab_size, vocab_size - 1);
  if (token >= vocab_size)  // the default may be above the vocabulary
    config.refuse(kKey,
                  fmt::format("null or a token below vocab_size = {}; the default is {}", vocab_size, token));
  return token < 0 ? token + vocab_size : token;
}

}  // namespace

DType read_published_dtype(const ConfigReader& config) {
  const std::optional<DType> dtype =
      dtype_from_name(config.with(Nulls::kAbsent).text({"dtype", "torch_dtype"}, "bfloat16"));
  if (!dtype || !is_convertible(*dtype, DType::kFloat32))
    config.refuse(config.has("dtype") ? "dtype" : "torch_dtype",
                  "'bfloat16', 'float16', 'float32' or 'float64'");
  return *dtype;
}

ModelConfig read_common_config(const ConfigReader& config, const CommonDefaults& defaults) {
  refuse_unsupported(config, defaults);
  ModelConfig model;
  model.vocab_size = config.integer({"vocab_size"});
  model.padding_token = read_padding_token(config, defaults.padding_token, model.vocab_size);
  model.hidden_size = config.integer({"hidden_size"});
  read_heads(config, defaults, model);
  model.attention_bias = config.boolean({"attention_bias"}, false);
  model.attention_dropout = config.number({"attention_dropout"}, 0.0);
  if (!defaults.rotary_by_kind) model.rotary = read_rotary_config(config, defaults, model.head_dim);
  const std::size_t layers = read_layer_count(config, defaults.layers);
  model.layers.assign(layers, MlpKind::kDense);
  model.attention.assign(layers, AttentionKind::kFull);
  model.max_positions = config.integer({"max_position_embeddings", "model_max_length"}, 0, 0,
                                       std::numeric_limits<std::int64_t>::max());
  model.rms_norm_eps = config.positive({defaults.rms_norm_eps_key}, defaults.rms_norm_eps);
  model.initializer_range = config.positive({"initializer_range"}, defaults.initializer_range);
  model.tie_word_embeddings = config.boolean({"tie_word_embeddings"}, defaults.tie_word_embeddings);
  model.published_dtype = read_published_dtype(config);
  model.quantized = read_quantization(config.with(Nulls::kAbsent)).has_value();
  return model;
}

void read_expert_config(const ConfigReader& config, const char* width_key, ModelConfig& model) {
  model.experts = config.integer(kExperts, {}, 1, kMaxExperts);
  model.experts_per_token = config.integer(kChosenExperts);
  if (model.experts_per_token > model.experts)
    for (const char* key : kChosenExperts)
      if (config.has(key))
        config.refuse(key, fmt::format("at most the number of experts, {}", model.experts));
  model.expert_intermediate_size = config.integer({width_key});
}

void read_sparse_layers(const ConfigReader& config, ModelConfig& model) {
  const std::int64_t step = config.integer({"decoder_sparse_step"}, 1);
  const std::vector<std::int64_t> dense = config.integers({"mlp_only_layers"});
  for (const std::int64_t layer : dense)
    if (layer < 0 || layer >= model.layer_count()) config.refuse("mlp_only_layers", "indices of layers");
  for (std::int64_t layer = 0; layer < model.layer_count(); ++layer)
    if ((layer + 1) % step == 0 && std::ranges::find(dense, layer) == dense.end())
      model.layers[static_cast<std::size_t>(layer)] = MlpKind::kMoe;
}

void read_shared_experts(const ConfigReader& config, std::optional<std::int64_t> otherwise,
                         ModelConfig& model) {
  model.shared_expert_intermediate_size =
      model.expert_intermediate_size *
      config.integer({"n_shared_experts", "num_shared_experts"}, otherwise, 1, 1024);
}

void read_expert_groups(const ConfigReader& config, std::optional<std::int64_t> groups,
                        std::optional<std::int64_t> chosen_groups, ModelConfig& model) {
  RouterConfig& router = model.router;
  const char* const groups_key = config.has("num_expert_group") ? "num_expert_group" : "n_group";
  router.groups = config.integer({groups_key}, groups);
  const std::int64_t size = model.experts / router.groups;
  if (model.experts % router.groups != 0 || (router.groups > 1 && size < router.scores_per_group))
    config.refuse(groups_key,
                  fmt::format("a divisor of the number of experts, {}, that leaves {} in each group",
                              model.experts, router.scores_per_group == 1 ? "one" : "two"));
  router.chosen_groups = config.integer({"topk_group"}, chosen_groups);
  if (router.chosen_groups > router.groups)
    config.refuse("topk_group", fmt::format("at most {} = {}", groups_key, router.groups));
  if (const std::int64_t left = size * router.chosen_groups; model.experts_per_token > left)
    config.refuse("topk_group",
                  fmt::format("groups with at least num_experts_per_tok = {} experts, these have {}",
                              model.experts_per_token, left));
}

void read_sigmoid_router(const ConfigReader& config, const SigmoidRouterDefaults& defaults,
                         ModelConfig& model) {
  expect_text(config, "scoring_func", "sigmoid");
  expect_text(config, "topk_method", "noaux_tc");
  model.router = {.score = RouterScore::kSigmoid,
                  .has_correction_bias = true,
                  .normalize = config.boolean({"norm_topk_prob", "moe_renormalize"}, defaults.normalize),
                  .epsilon = 1e-20,
                  .scale = config.with(defaults.null_scale ? Nulls::kAbsent : Nulls::kRefused)
                               .positive({"routed_scaling_factor"}, defaults.scale)};
  read_expert_groups(config, defaults.groups, defaults.chosen_groups, model);
}

void read_first_dense_layers(const ConfigReader& config, std::int64_t dense, ModelConfig& model) {
  constexpr const char* kTypes = "mlp_layer_types";
  if (const auto types = read_layer_kinds(config, kTypes, model)) {
    for (std::size_t layer = 0; layer < types->size(); ++layer) {
      const std::string& type = (*types)[layer];
      if (type != "dense" && type != "sparse") config.refuse(kTypes, "'dense' or 'sparse' for each layer");
      model.layers[layer] = type == "dense" ? MlpKind::kDense : MlpKind::kMoe;
    }
    return;
  }
  const std::int64_t first = config.integer({"first_k_dense_replace"}, dense, 0);
  std::fill(model.layers.begin() + std::min<std::int64_t>(first, model.layer_count()), model.layers.end(),
            MlpKind::kMoe);
}

void refuse_windows(const ConfigReader& config, std::optional<std::int64_t> max_window_layers,
                    const ModelConfig& model) {
  if (const auto types = read_layer_kinds(config, "layer_types", model)) {
    if (std::ranges::any_of(*types, [](const std::string& type) { return type != "full_attention"; }))
      config.refuse("layer_types", "'full_attention' for each layer");
    return;
  }
  if (!max_window_layers || config.is_null("sliding_window")) return;
  const std::int64_t full = config.integer({"max_window_layers"}, max_window_layers, 0);
  if (full < model.layer_count())
    config.refuse("max_window_layers",
                  fmt::format("at least num_hidden_layers = {}, or sliding_window null; the default is {}",
                              model.layer_count(), *max_window_layers));
}

bool read_layer_mixers(const ConfigReader& config, std::string_view other_name, AttentionKind other,
                       ModelConfig& model) {
  constexpr const char* kTypes = "layer_types";
  const auto types = read_layer_kinds(config, kTypes, model);
  for (std::size_t layer = 0; types && layer < types->size(); ++layer) {
    const std::string& type = (*types)[layer];
    if (type != other_name && type != "full_attention")
      config.refuse(kTypes, fmt::format("'{}' or 'full_attention' for each layer", other_name));
    model.attention[layer] = type == "full_attention" ? AttentionKind::kFull : other;
  }
  return types.has_value();
}

void read_windows(const ConfigReader& config, std::optional<std::int64_t> window, ModelConfig& model) {
  read_layer_mixers(config, "sliding_attention", AttentionKind::kSliding, model);
  if (std::ranges::count(model.attention, AttentionKind::kSliding) == 0) return;
  constexpr const char* kWindow = "sliding_window";
  if (config.is_null(kWindow)) config.refuse(kWindow, "an integer, as layers have 'sliding_attention'");
  model.sliding_window = config.integer({kWindow}, window);
}

std::optional<std::vector<std::string>> read_layer_kinds(const ConfigReader& config, const char* key,
                                                         const ModelConfig& model) {
  if (!config.has(key)) return std::nullopt;
  std::vector<std::string> kinds = config.texts({key});
  const std::int64_t behind = std::ssize(kinds) - model.layer_count();
  if (behind != 0 && behind != model.prediction_layers)
    config.refuse(key,
                  fmt::format("one for each of {0} layers, as num_hidden_layers = {0}", model.layer_count()));
  kinds.resize(model.layers.size());
  return kinds;
}

std::vector<bool> read_layers_of_kind(const ConfigReader& config, const ConfigReader& flags,
                                      const LayerSpellings& keys, const std::vector<bool>& otherwise,
                                      const ModelConfig& model) {
  std::vector<bool> out = otherwise;
  const auto kinds = read_layer_kinds(config, keys.kinds, model);
  for (std::size_t layer = 0; kinds && layer < out.size(); ++layer) {
    out[layer] = (*kinds)[layer] == keys.set;
    if (!out[layer] && (*kinds)[layer] != keys.unset)
      config.refuse(keys.kinds, fmt::format("'{}' or '{}' for each layer", keys.unset, keys.set));
  }
  if (!flags.has(keys.flags)) return out;
  const std::vector<std::int64_t> given = flags.integers({keys.flags});
  if (given.size() != out.size())
    flags.refuse(keys.flags, fmt::format("one for each of {} layers", out.size()));
  for (std::size_t layer = 0; layer < out.size(); ++layer) {
    const bool is_set = given[layer] != 0;
    if (kinds && out[layer] != is_set) flags.refuse(keys.flags, fmt::format("what {} says", keys.kinds));
    out[layer] = is_set;
  }
  return out;
}

std::optional<ConfigReader> settings_of_layer(const ConfigReader& config, int layer) {
  const std::optional<ConfigReader> all = config.object({"per_layer_config"});
  return all ? all->object({fmt::to_string(layer).c_str()}) : std::nullopt;
}

std::vector<double> read_numbers_by_layer(const ConfigReader& config, const char* key,
                                          const ModelConfig& model, std::optional<double> null) {
  std::vector<double> numbers = config.numbers({key}, null);
  if (numbers.empty()) return numbers;
  const std::int64_t behind = std::ssize(numbers) - model.layer_count();
  if (behind != 0 && behind != model.prediction_layers)
    config.refuse(key, fmt::format("one for each of {} layers", model.layer_count()));
  numbers.resize(model.layers.size());
  return numbers;
}

void read_silu_limits(const ConfigReader& config, const char* experts_key, const char* shared_key,
                      ModelConfig& model) {
  const auto read = [&](const char* key) {
    std::vector<double> limits = read_numbers_by_layer(config, key, model, 0.0);
    if (std::ranges::any_of(limits, [](double limit) { return limit < 0; }))
      config.refuse(key, "limits above 0, or 0 for none");
    limits.resize(model.layers.size());
    return limits;
  };
  const std::vector<double> experts = read(experts_key), shared = read(shared_key);
  const auto is_none = [](double limit) { return limit == 0; };
  if (std::ranges::all_of(experts, is_none) && std::ranges::all_of(shared, is_none)) return;
  model.swiglu_clamp = SwigluClamp::kSilu;
  for (std::size_t layer = 0; layer < experts.size(); ++layer)
    model.limits_by_layer.push_back({.experts = experts[layer], .shared_expert = shared[layer]});
}

void expect_same_number(const ConfigReader& config, const char* key, const char* other,
                        std::int64_t minimum) {
  if (!config.contains(key)) return;
  const std::int64_t number = config.integer({key}, {}, minimum),
                     expected = config.integer({other}, number, minimum);
  if (number != expected) config.refuse(key, fmt::format("{} = {}", other, expected));
}

std::int64_t read_prediction_layers(const ConfigReader& config, const char* key, std::int64_t otherwise) {
  return config.with(Nulls::kAbsent).integer({key}, otherwise, 0, 1024);
}

void read_time_step_limit(const ConfigReader& config, const char* key, Mamba2Config& mamba) {
  const auto limits = config.limits(key);
  if (!limits) return;
  if (limits->first < 0) config.refuse(key, "limits that are not negative");
  mamba.least_step = limits->first;
  mamba.largest_step = limits->second;
}

bool reads_text(const ConfigReader& config, const char* key, const std::string& text,
                const std::string& otherwise) {
  const std::string found = config.text({key}, otherwise);
  if (found != text && found != otherwise) config.refuse(key, fmt::format("'{}' or '{}'", text, otherwise));
  return found == text;
}

void expect_text(const ConfigReader& config, const char* key, const std::string& expected) {
  if (config.with(Nulls::kAbsent).text({key}, expected) != expected)
    config.refuse(key, fmt::format("'{}'", expected));
}

}  // namespace sluice
