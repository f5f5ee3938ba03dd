// What the tests of families share: published models, what they are described as, and what is refused.
#pragma once

#include "model/architecture.hpp"
#include "model/described.hpp"
#include "model/published_size.hpp"
#include "model/shape_of.hpp"
#include "support/expect_error.hpp"
#include "support/source_folder.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <fstream>
#include <string>

namespace sluice::test {

using nlohmann::json;

/// config.json of a published model, which is a directory of tests/fixtures/configs, as one whose weights are
/// not quantised.
[[nodiscard]] inline json published_config(const std::string& name) {
  json config = json::parse(std::ifstream(fixture_folder() / "configs" / name / "config.json"));
  config.erase("quantization_config");
  return config;
}

/// A letter for the token mixer of each layer: F full attention, S sliding, L latent, D a delta net, C a short
/// convolution, M Mamba-2, K Kimi delta attention, - none.
[[nodiscard]] inline std::string block_kinds(const ModelConfig& config) {
  std::string kinds;
  for (const AttentionKind kind : config.attention) kinds += "-FSLDCMK"[static_cast<std::size_t>(kind)];
  return kinds;
}

}  // namespace sluice::test
