// The shape of a tensor in a manifest, for tests.
#pragma once

#include "model/architecture.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice::test {

using Shape = std::vector<std::int64_t>;

/// {-1} for a tensor that the manifest lacks.
[[nodiscard]] inline Shape shape_of(const ParameterManifest& manifest, std::string_view name) {
  const auto tensor = manifest.find(name);
  return tensor ? manifest[*tensor].shape : Shape{-1};
}
[[nodiscard]] inline Shape shape_of(const ModelDescription& model, std::string_view name) {
  return shape_of(model.manifest, name);
}

}  // namespace sluice::test
