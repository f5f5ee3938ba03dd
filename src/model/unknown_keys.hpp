// Keys of a config.json that nothing here knows.
#pragma once

#include "model/config_reader.hpp"

#include <string>
#include <vector>

namespace sluice {

/// Those of a document that has been read, and of its `text_config`, that neither were asked for nor are known to change nothing
/// that is computed here; in the order of their names, each once.
[[nodiscard]] std::vector<std::string> unknown_keys(const ConfigReader& config);

}  // namespace sluice
