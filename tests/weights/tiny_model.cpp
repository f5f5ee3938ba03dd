#include "weights/tiny_model.hpp"

#include "base/error.hpp"
#include "io/file.hpp"
#include "io/safetensors.hpp"
#include "manifest/key_map.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <span>
#include <variant>

namespace sluice::test {
namespace {

/// Element i of a tensor of matrices, in the order of the matrices' transposes.
std::int64_t transposed(std::int64_t i, const std::vector<std::int64_t>& shape) {
  const std::int64_t rows = shape[1], columns = shape[2], inside = i % (rows * columns);
  return i - inside + inside % columns * rows + inside / columns;
}

void add_attention(ParameterManifest& manifest, const TinyModel& m, int layer) {
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  const auto add = [&](std::string_view name, std::vector<std::int64_t> shape, Role role) {
    manifest.add(
        {prefix + std::string(name), std::move(shape), m.dtype, role, layer, TensorKind::kParameter, ""});
  };
  add("self_attn.q_proj.weight", {m.heads * m.head_width, m.hidden}, Role::kAttention);
  add("self_attn.k_proj.weight", {m.key_heads * m.head_width, m.hidden}, Role::kAttention);
  add("self_attn.v_proj.weight", {m.key_heads * m.head_width, m.hidden}, Role::kAttention);
  if (m.joined_groups > 0) {
    const auto part = [&](std::string_view name, std::int64_t heads) {
      return std::pair{prefix + std::string(name), heads * m.head_width / m.joined_groups};
    };
    const std::array parts{part("self_attn.q_proj.weight", m.heads),
                           part("self_attn.k_proj.weight", m.key_heads),
                           part("self_attn.v_proj.weight", m.key_heads)};
    std::vector<JoinedRows> rows;
    for (const auto& [name, count] : parts) rows.push_back({name, 0, count});
    manifest.add_joined(prefix + "self_attn.query_key_value.weight", m.joined_groups, rows);
  }
  add("self_attn.o_proj.weight", {m.hidden, m.heads * m.head_width}, Role::kAttention);
  if (m.whole_tensors)
    manifest.add({prefix + "self_attn.A_log",
                  {m.heads},
                  m.dtype,
                  Role::kAttention,
                  layer,
                  TensorKind::kFloat32Parameter,
                  ""});
  add("self_attn.q_norm.weight", {m.head_width}, Role::kNorm);
  add("self_attn.k_norm.weight", {m.head_width}, Role::kNorm);
  if (m.experts == 0 || std::ranges::find(m.dense_layers, layer) != m.dense_layers.end()) {
    add("mlp.gate_proj.weight", {m.dense_width, m.hidden}, Role::kDenseMlp);
    add("mlp.up_proj.weight", {m.dense_width, m.hidden}, Role::kDenseMlp);
    add("mlp.down_proj.weight", {m.hidden, m.dense_width}, Role::kDenseMlp);
  } else {
    add("mlp.experts.gate_up_proj", {m.experts, 2 * m.expert_width, m.hidden}, Role::kExpert);
    add("mlp.experts.down_proj", {m.experts, m.hidden, m.expert_width}, Role::kExpert);
    add("mlp.gate.weight", {m.experts, m.hidden}, Role::kRouter);
    if (m.whole_tensors)
      manifest.add({prefix + "mlp.gate.e_score_correction_bias",
                    {m.experts},
                    DType::kFloat32,
                    Role::kRouter,
                    layer,
                    TensorKind::kPersistentBuffer,
                    ""});
  }
  add("input_layernorm.weight", {m.hidden}, Role::kNorm);
  add("post_attention_layernorm.weight", {m.hidden}, Role::kNorm);
}

}  // namespace

ParameterManifest manifest_of(const TinyModel& m) {
  ParameterManifest manifest;
  const std::string embedding = "model.embed_tokens.weight";
  manifest.add(
      {embedding, {m.vocabulary, m.hidden}, m.dtype, Role::kEmbedding, -1, TensorKind::kParameter, ""});
  for (int layer = 0; layer < m.layers; ++layer) add_attention(manifest, m, layer);
  manifest.add({"model.norm.weight", {m.hidden}, m.dtype, Role::kNorm, -1, TensorKind::kParameter, ""});
  manifest.add({"lm_head.weight",
                {m.vocabulary, m.hidden},
                m.dtype,
                Role::kHead,
                -1,
                TensorKind::kParameter,
                m.tied ? embedding : ""});
  if (m.transposed) manifest.set_transposed_experts();
  manifest.add_foreign_part(ForeignPart::kVisionTower);
  manifest.add_foreign_part(ForeignPart::kMultiTokenPrediction);
  return manifest;
}

void write_safetensors(const std::filesystem::path& path, const std::vector<FileTensor>& tensors) {
  std::vector<SafetensorsEntry> entries;
  for (const FileTensor& tensor : tensors) entries.push_back({tensor.name, tensor.dtype, tensor.shape, 0, 0});
  std::string bytes = make_safetensors_header(entries, {{"format", "pt"}});
  if (!entries.empty()) bytes.resize(static_cast<std::size_t>(entries.back().begin + entries.back().bytes));
  for (std::size_t i = 0; i < tensors.size(); ++i)
    bytes.replace(static_cast<std::size_t>(entries[i].begin), tensors[i].bytes.size(), tensors[i].bytes);
  write_file(path, bytes);
}

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::vector<std::vector<std::byte>> place_directly(
    const CheckpointIndex& index, const ParameterManifest& manifest, const UnitLayouts& layouts, DType arena,
    const std::function<std::vector<std::byte>(const CheckpointEntry&)>& bytes_of) {
  const KeyMap keys(manifest);
  const auto size = size_of(arena);
  std::vector<std::vector<std::byte>> units;
  for (const FlatLayout& unit : layouts.units)
    units.emplace_back(static_cast<std::size_t>(unit.elements() * size));
  for (const CheckpointEntry& entry : index.entries) {
    const auto target = keys.resolve(entry.name);
    const auto* key = std::get_if<KeyTarget>(&target);
    if (key == nullptr || layouts.unit_of(key->tensor()) < 0) continue;
    const std::vector<std::byte> bytes = bytes_of(entry);
    const std::byte* source = bytes.data();
    for (const TensorRange& range : key->ranges) {
      const TensorHome& home = layouts.homes[static_cast<std::size_t>(range.tensor)];
      const FlatLayout& unit = layouts.units[static_cast<std::size_t>(home.unit)];
      const Placement& p = unit.placement_of(range.tensor);
      for (std::int64_t i = range.begin; i < range.end(); ++i) {
        const std::int64_t element = key->is_transposed ? transposed(i, key->shape) : i;
        const std::int64_t at =
            p.offset + element / p.block_elements * p.block_stride + element % p.block_elements;
        convert_elements(source, entry.dtype, units[static_cast<std::size_t>(home.unit)].data() + at * size,
                         arena, 1);
        source += size_of(entry.dtype);
      }
    }
  }
  return units;
}

std::vector<std::byte> arena_of(const std::vector<std::vector<std::byte>>& units, const ShardPlan& plan,
                                int rank, DType arena) {
  const auto size = size_of(arena);
  std::vector<std::byte> out(static_cast<std::size_t>(plan.arena_elements(rank) * size));
  for (int unit = 0; unit < static_cast<int>(units.size()); ++unit) {
    const Range owned = plan.owned(unit, rank);
    const auto part = std::span(units[static_cast<std::size_t>(unit)])
                          .subspan(static_cast<std::size_t>(owned.begin * size),
                                   static_cast<std::size_t>(owned.count() * size));
    std::ranges::copy(part, out.begin() + plan.arena_offset(unit, rank) * size);
  }
  return out;
}

}  // namespace sluice::test
