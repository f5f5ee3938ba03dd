// A part of things that are numbered.
#pragma once

#include <cstdint>

namespace sluice {

/// Those from `begin` up to, but without, `end`.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] std::int64_t count() const { return end - begin; }
};

}  // namespace sluice
