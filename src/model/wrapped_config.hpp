// Reads the language model of a config.json that describes more than a language model.
#pragma once

#include "model/config_reader.hpp"
#include "model/model_config.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// Which tie_word_embeddings counts if both the wrapper and the text model have the key; kBoth: the two must agree.
enum class TiedBy : std::uint8_t { kWrapper, kText, kBoth };

/// Reads the object `text_config` by `read`; its model_type is one of `text_types`, the first of them if
/// missing. Element type and quantisation may be set in the wrapper. Error(kBadData) for another model_type,
/// or if there is no such object.
[[nodiscard]] ModelConfig read_wrapped_config(const ConfigReader& config,
                                              const std::vector<std::string>& text_types, TiedBy tied,
                                              ModelConfig (*read)(const ConfigReader& config));

}  // namespace sluice
