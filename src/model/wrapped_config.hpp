// The language model of a config.json that describes more than that.
#pragma once

#include "model/config_reader.hpp"
#include "model/model_config.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// Config whose tie_word_embeddings counts where both have the key.
enum class TiedBy : std::uint8_t { kWrapper, kText };

/// Result of `read` for `text_config`, whose model_type is one of `text_types`, or the first of them where it
/// has none. The element type and the quantisation may be the wrapper's. Error(kBadData) for another
/// model_type, or no such object.
[[nodiscard]] ModelConfig read_wrapped_config(const ConfigReader& config,
                                              const std::vector<std::string>& text_types, TiedBy tied,
                                              ModelConfig (*read)(const ConfigReader& config));

}  // namespace sluice
