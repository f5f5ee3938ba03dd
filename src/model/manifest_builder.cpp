#include "model/manifest_builder.hpp"

#include <fmt/format.h>

#include <utility>

namespace sluice {

void ManifestBuilder::add(const std::string& name, std::vector<std::int64_t> shape, Role role,
                          std::string tied_to, InitialValues initial) {
  const std::string prefix = layer_ < 0 ? "" : fmt::format("model.layers.{}.", layer_);
  manifest_.add({prefix + name, std::move(shape), dtype_, role, layer_, TensorKind::kParameter,
                 std::move(tied_to), initial});
}

void ManifestBuilder::add_block_norm(const std::string& name, std::int64_t size) {
  add(name, {size}, Role::kNorm, {}, block_norm_);
}

void ManifestBuilder::add_computed(std::string name, std::vector<std::int64_t> shape) {
  manifest_.add({std::move(name),
                 std::move(shape),
                 DType::kFloat32,
                 Role::kAttention,
                 -1,
                 TensorKind::kComputedBuffer,
                 {}});
}

void add_attention(ManifestBuilder& builder, const ModelConfig& c) {
  const std::int64_t queries = c.attention_heads * c.head_dim;
  const std::int64_t keys = c.key_value_heads * c.head_dim;
  builder.add("self_attn.q_proj.weight", {c.attention_output_gate ? 2 * queries : queries, c.hidden_size},
              Role::kAttention);
  builder.add("self_attn.k_proj.weight", {keys, c.hidden_size}, Role::kAttention);
  builder.add("self_attn.v_proj.weight", {keys, c.hidden_size}, Role::kAttention);
  builder.add("self_attn.o_proj.weight", {c.hidden_size, queries}, Role::kAttention);
  if (c.query_key_norm == QueryKeyNorm::kNone) return;
  const bool is_whole = c.query_key_norm == QueryKeyNorm::kWholeProjection;
  builder.add_block_norm("self_attn.q_norm.weight", is_whole ? queries : c.head_dim);
  builder.add_block_norm("self_attn.k_norm.weight", is_whole ? keys : c.head_dim);
}

void add_swiglu(ManifestBuilder& builder, const std::string& name, std::int64_t width, std::int64_t hidden,
                Role role) {
  builder.add(name + ".gate_proj.weight", {width, hidden}, role);
  builder.add(name + ".up_proj.weight", {width, hidden}, role);
  builder.add(name + ".down_proj.weight", {hidden, width}, role);
}

void add_router(ManifestBuilder& builder, const ModelConfig& c) {
  builder.add("mlp.gate.weight", {c.experts, c.hidden_size}, Role::kRouter);
}

void add_experts(ManifestBuilder& builder, const ModelConfig& c) {
  builder.add("mlp.experts.gate_up_proj", {c.experts, 2 * c.expert_intermediate_size, c.hidden_size},
              Role::kExpert);
  builder.add("mlp.experts.down_proj", {c.experts, c.hidden_size, c.expert_intermediate_size}, Role::kExpert);
}

ParameterManifest describe_decoder(
    const ModelConfig& config, DType dtype,
    const std::function<void(ManifestBuilder& builder, std::size_t layer)>& add_blocks) {
  ManifestBuilder builder(config, dtype);
  builder.add("model.embed_tokens.weight", {config.vocab_size, config.hidden_size}, Role::kEmbedding);
  for (int layer = 0; layer < config.layer_count(); ++layer) {
    builder.in_layer(layer);
    add_blocks(builder, static_cast<std::size_t>(layer));
    builder.add_block_norm("input_layernorm.weight", config.hidden_size);
    builder.add_block_norm("post_attention_layernorm.weight", config.hidden_size);
  }
  builder.in_layer(-1);
  builder.add_block_norm("model.norm.weight", config.hidden_size);
  builder.add("lm_head.weight", {config.vocab_size, config.hidden_size}, Role::kHead,
              config.tie_word_embeddings ? "model.embed_tokens.weight" : "");
  builder.add_computed("model.rotary_emb.inv_freq", {config.rotary.dim / 2});
  builder.add_computed("model.rotary_emb.original_inv_freq", {config.rotary.dim / 2});
  return builder.take();
}

}  // namespace sluice
