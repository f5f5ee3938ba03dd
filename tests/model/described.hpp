// The model of a config.json, for tests.
#pragma once

#include "model/architecture.hpp"

#include <nlohmann/json.hpp>

namespace sluice::test {

[[nodiscard]] inline ModelDescription described(const nlohmann::json& config) {
  return describe_model_text(config.dump(), "config.json", DType::kBFloat16);
}

}  // namespace sluice::test
