// Reads what indexers do that choose blocks of keys for attention, from a config.json of transformers or a published
// one.
#pragma once

#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads in how long sequences the model's indexers choose all blocks, which is plain attention; no limit where no
/// layer has one. `kind`: name in layer_types of layers that have one. Keys lie beside all others, or in
/// sparse_attention_config under other names.
[[nodiscard]] SequenceLimit read_block_indexers(const ConfigReader& config, const char* kind,
                                                const ModelConfig& model);

}  // namespace sluice
