#include "model/qwen3.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace sluice {
namespace {

// Above what any model has; far below what would make a description slow.
constexpr std::int64_t kMaxLayers = 10'000;
constexpr std::int64_t kMaxExperts = 65'536;

double read_rope_theta(const ConfigReader& config) {
  const std::optional<ConfigReader> nested = config.object({"rope_parameters", "rope_scaling"});
  const ConfigReader& rope = nested ? *nested : config;
  if (nested && rope.text({"rope_type", "type"}, "default") != "default")
    rope.refuse(rope.has("rope_type") ? "rope_type" : "type",
                "'default': other rotary scalings are not supported yet");
  if (rope.number({"partial_rotary_factor"}, 1.0) != 1.0) rope.refuse("partial_rotary_factor", "1");
  return rope.has("rope_theta") ? rope.positive({"rope_theta"}) : config.positive({"rope_theta"}, 10000.0);
}

/// Settings that would change the numbers and that these blocks do not compute.
void refuse_unsupported(const ConfigReader& config) {
  if (config.text({"hidden_act"}, "silu") != "silu") config.refuse("hidden_act", "'silu'");
  if (config.boolean({"attention_bias"}, false)) config.refuse("attention_bias", "false");
  if (config.boolean({"use_sliding_window"}, false)) config.refuse("use_sliding_window", "false");
  if (config.number({"attention_dropout"}, 0.0) != 0.0) config.refuse("attention_dropout", "0");
}

DType read_published_dtype(const ConfigReader& config) {
  const std::optional<DType> dtype = dtype_from_name(config.text({"dtype", "torch_dtype"}, "bfloat16"));
  if (!dtype || !is_convertible(*dtype, DType::kFloat32))
    config.refuse(config.has("dtype") ? "dtype" : "torch_dtype", "'bfloat16', 'float16' or 'float32'");
  return *dtype;
}

ModelConfig read_common(const ConfigReader& config, std::optional<std::int64_t> default_head_dim) {
  refuse_unsupported(config);
  ModelConfig model;
  model.model_type = config.text({"model_type"});
  model.vocab_size = config.integer({"vocab_size"});
  model.hidden_size = config.integer({"hidden_size"});
  model.attention_heads = config.integer({"num_attention_heads"});
  model.key_value_heads = config.integer({"num_key_value_heads"}, model.attention_heads);
  if (model.attention_heads % model.key_value_heads != 0)
    config.refuse("num_key_value_heads",
                  fmt::format("a divisor of num_attention_heads = {}", model.attention_heads));
  model.head_dim =
      config.integer({"head_dim"}, default_head_dim.value_or(model.hidden_size / model.attention_heads));
  // A hidden size below the number of heads makes the default 0.
  if (model.head_dim < 2 || model.head_dim % 2 != 0) config.refuse("head_dim", "an even number above 0");
  model.intermediate_size = config.integer({"intermediate_size"});
  model.layers.assign(static_cast<std::size_t>(config.integer({"num_hidden_layers"}, {}, 1, kMaxLayers)),
                      MlpKind::kDense);
  model.rms_norm_eps = config.positive({"rms_norm_eps"}, 1e-6);
  model.rope_theta = read_rope_theta(config);
  model.initializer_range = config.positive({"initializer_range"}, 0.02);
  model.tie_word_embeddings = config.boolean({"tie_word_embeddings"}, false);
  model.published_dtype = read_published_dtype(config);
  return model;
}

/// As Qwen3MoeDecoderLayer decides it.
void choose_moe_layers(const ConfigReader& config, ModelConfig& model) {
  const std::int64_t step = config.integer({"decoder_sparse_step"}, 1);
  const std::vector<std::int64_t> dense = config.integers({"mlp_only_layers"});
  for (const std::int64_t layer : dense)
    if (layer < 0 || layer >= model.layer_count()) config.refuse("mlp_only_layers", "indices of layers");
  for (std::int64_t layer = 0; layer < model.layer_count(); ++layer)
    if ((layer + 1) % step == 0 && std::ranges::find(dense, layer) == dense.end())
      model.layers[static_cast<std::size_t>(layer)] = MlpKind::kMoe;
}

/// Adds tensors with the fields they share.
class Builder {
 public:
  explicit Builder(DType dtype) : dtype_(dtype) {}
  void in_layer(int layer) { layer_ = layer; }
  void add(std::string name, std::vector<std::int64_t> shape, Role role, std::string tied_to = {}) {
    const std::string prefix = layer_ < 0 ? "" : fmt::format("model.layers.{}.", layer_);
    manifest_.add(
        {prefix + name, std::move(shape), dtype_, role, layer_, TensorKind::kParameter, std::move(tied_to)});
  }
  void add_computed(std::string name, std::vector<std::int64_t> shape) {
    manifest_.add({std::move(name),
                   std::move(shape),
                   DType::kFloat32,
                   Role::kAttention,
                   -1,
                   TensorKind::kComputedBuffer,
                   {}});
  }
  ParameterManifest take() { return std::move(manifest_); }

 private:
  DType dtype_;
  int layer_ = -1;
  ParameterManifest manifest_;
};

void add_attention(Builder& builder, const ModelConfig& c) {
  const std::int64_t queries = c.attention_heads * c.head_dim;
  const std::int64_t keys = c.key_value_heads * c.head_dim;
  builder.add("self_attn.q_proj.weight", {queries, c.hidden_size}, Role::kAttention);
  builder.add("self_attn.k_proj.weight", {keys, c.hidden_size}, Role::kAttention);
  builder.add("self_attn.v_proj.weight", {keys, c.hidden_size}, Role::kAttention);
  builder.add("self_attn.o_proj.weight", {c.hidden_size, queries}, Role::kAttention);
  builder.add("self_attn.q_norm.weight", {c.head_dim}, Role::kNorm);
  builder.add("self_attn.k_norm.weight", {c.head_dim}, Role::kNorm);
}

void add_mlp(Builder& builder, const ModelConfig& c, MlpKind kind) {
  if (kind == MlpKind::kDense) {
    builder.add("mlp.gate_proj.weight", {c.intermediate_size, c.hidden_size}, Role::kDenseMlp);
    builder.add("mlp.up_proj.weight", {c.intermediate_size, c.hidden_size}, Role::kDenseMlp);
    builder.add("mlp.down_proj.weight", {c.hidden_size, c.intermediate_size}, Role::kDenseMlp);
    return;
  }
  builder.add("mlp.gate.weight", {c.experts, c.hidden_size}, Role::kRouter);
  builder.add("mlp.experts.gate_up_proj", {c.experts, 2 * c.expert_intermediate_size, c.hidden_size},
              Role::kExpert);
  builder.add("mlp.experts.down_proj", {c.experts, c.hidden_size, c.expert_intermediate_size}, Role::kExpert);
}

}  // namespace

ModelConfig read_qwen3_config(const ConfigReader& config) { return read_common(config, 128); }

ModelConfig read_qwen3_moe_config(const ConfigReader& config) {
  ModelConfig model = read_common(config, std::nullopt);
  model.experts = config.integer({"num_experts", "num_local_experts"}, {}, 1, kMaxExperts);
  model.experts_per_token = config.integer({"num_experts_per_tok"});
  if (model.experts_per_token > model.experts)
    config.refuse("num_experts_per_tok", fmt::format("at most the number of experts, {}", model.experts));
  model.expert_intermediate_size = config.integer({"moe_intermediate_size"});
  model.normalize_expert_weights = config.boolean({"norm_topk_prob"}, false);
  choose_moe_layers(config, model);
  return model;
}

ParameterManifest describe_qwen3(const ModelConfig& config, DType dtype) {
  Builder builder(dtype);
  builder.add("model.embed_tokens.weight", {config.vocab_size, config.hidden_size}, Role::kEmbedding);
  for (int layer = 0; layer < config.layer_count(); ++layer) {
    builder.in_layer(layer);
    add_attention(builder, config);
    add_mlp(builder, config, config.layers[static_cast<std::size_t>(layer)]);
    builder.add("input_layernorm.weight", {config.hidden_size}, Role::kNorm);
    builder.add("post_attention_layernorm.weight", {config.hidden_size}, Role::kNorm);
  }
  builder.in_layer(-1);
  builder.add("model.norm.weight", {config.hidden_size}, Role::kNorm);
  builder.add("lm_head.weight", {config.vocab_size, config.hidden_size}, Role::kHead,
              config.tie_word_embeddings ? "model.embed_tokens.weight" : "");
  builder.add_computed("model.rotary_emb.inv_freq", {config.head_dim / 2});
  return builder.take();
}

}  // namespace sluice
