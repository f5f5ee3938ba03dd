// Unknown keys of a config.json.
#pragma once

#include "model/config_reader.hpp"

#include <string>
#include <vector>

namespace sluice {

/// Keys of a document that has been read, and of its `text_config`, that were neither asked for nor are known
/// to change no computed number; sorted by name, each once.
[[nodiscard]] std::vector<std::string> unknown_keys(const ConfigReader& config);

}  // namespace sluice
