// How much of a model is published, for tests.
#pragma once

#include "manifest/key_map.hpp"
#include "model/architecture.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice::test {

/// Of all tensors of a checkpoint whose experts are written one by one.
struct PublishedSize {
  std::int64_t elements = 0;
  std::size_t tensors = 0;

  bool operator==(const PublishedSize&) const = default;
};

[[nodiscard]] inline PublishedSize published_size(const ModelDescription& model) {
  PublishedSize size;
  for (const PublishedTensor& tensor : KeyMap(model.manifest).published(ExpertLayout::kPerExpert)) {
    size.elements += tensor.target.element_count();
    ++size.tensors;
  }
  return size;
}

}  // namespace sluice::test
