#include "model/block_indexer_config.hpp"

#include "model/common_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {
namespace {

/// A number beside all other keys, or in `sparse` under another name; the two must not contradict each other.
std::int64_t read_number(const ConfigReader& config, const ConfigReader& sparse, const char* key,
                         const char* other, std::int64_t otherwise) {
  const std::int64_t flat = config.integer({key}, otherwise), nested = sparse.integer({other}, flat);
  if (config.has(key) && nested != flat) sparse.refuse(other, fmt::format("{} = {}", key, flat));
  return nested;
}

/// Refuses layers whose indexers add values of their own, or that a switch for all takes away.
void refuse_other_indexers(const ConfigReader& sparse, const std::vector<bool>& indexed) {
  if (!sparse.boolean({"use_sparse_attention"}, true)) sparse.refuse("use_sparse_attention", "true");
  const char* const kNoValues = "sparse_disable_index_value";
  const std::vector<std::int64_t> no_values = sparse.integers({kNoValues});
  if (!no_values.empty() && no_values.size() != indexed.size())
    sparse.refuse(kNoValues, fmt::format("one for each of {} layers", indexed.size()));
  for (std::size_t layer = 0; layer < no_values.size(); ++layer)
    if (indexed[layer] && no_values[layer] == 0) sparse.refuse(kNoValues, "1 for each layer with an indexer");
}

}  // namespace

SequenceLimit read_block_indexers(const ConfigReader& config, const char* kind, const ModelConfig& model) {
  const ConfigReader sparse =
      config.object({"sparse_attention_config"}).value_or(ConfigReader::parse("{}", config.name()));
  const LayerSpellings keys{"layer_types", "full_attention", kind, "sparse_attention_freq"};
  const std::vector<bool> none(model.layers.size());
  const std::vector<bool> indexed = read_layers_of_kind(config, sparse, keys, none, model);
  const std::int64_t blocks = read_number(config, sparse, "index_topk_blocks", "sparse_topk_blocks", 16),
                     tokens = read_number(config, sparse, "index_block_size", "sparse_block_size", 128);
  if (std::ranges::count(indexed, true) == 0) return {};
  refuse_other_indexers(sparse, indexed);
  return {blocks * tokens, "index_topk_blocks * index_block_size",
          "the model's indexers leave out blocks of longer sequences"};
}

}  // namespace sluice
