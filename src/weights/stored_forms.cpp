#include "weights/stored_forms.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace sluice {
namespace {

const CheckpointEntry& entry_of(const CheckpointIndex& index, const MatchedEntry& matched) {
  return index.entries[static_cast<std::size_t>(matched.entry)];
}

bool is_matrix_of_layer(const TensorInfo& tensor) {
  if (tensor.role == Role::kExpert) return tensor.shape.size() == 3;
  return tensor.layer >= 0 && tensor.shape.size() == 2 && tensor.role != Role::kRouter;
}

bool is_frozen_expert(const TensorInfo& tensor) {
  return tensor.role == Role::kExpert && tensor.shape.size() == 3 && tensor.frozen && tensor.adapts.empty();
}

bool is_gate_and_up(const TensorInfo& tensor) { return tensor.name.ends_with("gate_up_proj"); }

/// Encoding of elements that are stored as they were published.
Encoding plain_encoding() {
  return {.codes = Codes::kBFloat16, .rows = 1, .columns = 1, .block_rows = 1, .block_columns = 1};
}

/// Form that config.json announces for the experts of a fused tensor, by the name of the first of them.
WeightForm announced_form(const QuantizationConfig& config, const TensorInfo& tensor) {
  const std::size_t last = tensor.name.rfind('.') + 1;
  const std::string projection = is_gate_and_up(tensor) ? "gate_proj" : tensor.name.substr(last);
  return config.forms_for(tensor.name.substr(0, last) + "0." + projection).front();
}

/// Encoding in a form of matrices with as many rows as are published together: gate and up apart.
Encoding announced(const WeightForm& form, const TensorInfo& tensor) {
  const std::int64_t rows = is_gate_and_up(tensor) ? tensor.shape[1] / 2 : tensor.shape[1];
  return form.encoding_of(tensor.element_count() / tensor.shape[2] / rows, rows, tensor.shape[2]);
}

}  // namespace

StoredTensors find_stored(const CheckpointIndex& index, const CheckpointMatch& match,
                          const ParameterManifest& manifest) {
  std::map<int, bool> can_be;  // whether a tensor can be stored, by its index
  for (const MatchedEntry& matched : match.entries) {
    const TensorInfo& tensor = manifest[matched.tensor];
    const CheckpointEntry& entry = entry_of(index, matched);
    const bool fits = index.encoding_of(entry) != nullptr && !matched.is_transposed &&
                      is_matrix_of_layer(tensor) && !index.begins_blocks_anew(entry);
    const auto [at, is_new] = can_be.try_emplace(matched.tensor, fits);
    at->second = at->second && fits;
  }
  StoredTensors stored;
  std::map<int, int> numbers;  // new number of each encoding that is kept, by its number in the index
  for (const MatchedEntry& matched : match.entries) {
    if (!can_be[matched.tensor] || matched.count == 0) continue;
    const int encoding = entry_of(index, matched).encoding;
    const auto [at, is_new] = numbers.try_emplace(encoding, static_cast<int>(stored.encodings.size()));
    if (is_new) stored.encodings.push_back(index.encodings[static_cast<std::size_t>(encoding)]);
    stored.ranges.push_back({matched.tensor, matched.begin, matched.count, at->second, matched.entry_begin});
  }
  return stored;
}

StoredTensors quantised_matrices(const ParameterManifest& manifest, Codes codes, bool trains) {
  constexpr std::int64_t kNf4Block = 64;
  StoredTensors stored;
  for (const int number : manifest.stored_tensors()) {
    const TensorInfo& tensor = manifest[number];
    if (!is_matrix_of_layer(tensor) || !tensor.adapts.empty() || (trains && !tensor.frozen)) continue;
    Encoding encoding{.codes = codes, .scale_type = DType::kFloat32, .block_rows = 1};
    encoding.rows = tensor.shape[tensor.shape.size() - 2];
    encoding.columns = tensor.shape.back();
    encoding.block_columns = codes == Codes::kInt8 ? encoding.columns : kNf4Block;
    if (codes == Codes::kNormalFloat4 && encoding.columns % 2 != 0) continue;
    const std::int64_t count = tensor.element_count();
    encoding.scale_count = encoding.scales_of({0, count}).count();
    stored.ranges.push_back({number, 0, count, static_cast<int>(stored.encodings.size()), 0});
    stored.encodings.push_back(encoding);
  }
  return stored;
}

int find_quantised(const CheckpointIndex& index, const CheckpointMatch& match, std::span<const int> tensors) {
  for (const MatchedEntry& matched : match.entries)
    if (index.encoding_of(entry_of(index, matched)) != nullptr &&
        std::ranges::binary_search(tensors, matched.tensor))
      return matched.tensor;
  return -1;
}

void encode_plain_experts(CheckpointIndex& index, const CheckpointMatch& match,
                          const ParameterManifest& manifest) {
  const int encoding = static_cast<int>(index.encodings.size());
  index.encodings.push_back(plain_encoding());
  for (const MatchedEntry& matched : match.entries) {
    CheckpointEntry& entry = index.entries[static_cast<std::size_t>(matched.entry)];
    if (is_frozen_expert(manifest[matched.tensor]) && entry.dtype == DType::kBFloat16 && entry.encoding < 0 &&
        !matched.is_transposed)
      entry.encoding = encoding;
  }
}

StoredTensors plain_experts(const ParameterManifest& manifest) {
  StoredTensors stored{{plain_encoding()}, {}};
  for (const int number : manifest.stored_tensors())
    if (is_frozen_expert(manifest[number]))
      stored.ranges.push_back({number, 0, manifest[number].element_count(), 0, 0});
  return stored;
}

StoredTensors announced_stored(const QuantizationConfig& config, const ParameterManifest& manifest) {
  StoredTensors stored;
  if (config.forms.empty()) return stored;
  for (const int number : manifest.stored_tensors()) {
    const TensorInfo& tensor = manifest[number];
    if (tensor.role != Role::kExpert || tensor.shape.size() != 3 || !tensor.adapts.empty()) continue;
    const Encoding encoding = announced(announced_form(config, tensor), tensor);
    if (encoding.columns % encoding.block_columns != 0 && encoding.codes != Codes::kFloat8E4M3) continue;
    stored.ranges.push_back(
        {number, 0, tensor.element_count(), static_cast<int>(stored.encodings.size()), 0});
    stored.encodings.push_back(encoding);
  }
  return stored;
}

int find_trained_quantised(const CheckpointIndex& index, const CheckpointMatch& match,
                           const ParameterManifest& manifest) {
  for (const MatchedEntry& matched : match.entries)
    if (index.encoding_of(entry_of(index, matched)) != nullptr && !manifest[matched.tensor].frozen)
      return matched.tensor;
  return -1;
}

}  // namespace sluice
