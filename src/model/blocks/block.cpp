#include "model/blocks/block.hpp"

#include <fmt/format.h>

namespace sluice {

std::string layer_tensor_name(int layer, std::string_view name) {
  return fmt::format("model.layers.{}.{}", layer, name);
}

BlockActivations& BlockActivations::operator+=(const BlockActivations& other) {
  kept += other.kept;
  passed += other.passed;
  recorded += other.recorded;
  choice_bytes += other.choice_bytes;
  working_bytes += other.working_bytes;
  return *this;
}

}  // namespace sluice
