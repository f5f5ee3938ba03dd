// Memory for the units of two consecutive stages: one in use while the other is gathered or reduced.
#pragma once

#include "device/memory.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sluice {

/// One block of memory, allocated once, that is handed out from both ends.
class DoubleEndedBuffer {
 public:
  /// `bytes`: the most that two consecutive stages take together, in `memory`. `purpose` is named in errors.
  DoubleEndedBuffer(MemoryKind memory, std::int64_t bytes, std::string_view purpose);

  /// Hands out `bytes` bytes at the free end. Error(kInternal) if both ends are in use, or if too little is
  /// left.
  [[nodiscard]] std::span<std::byte> take(std::int64_t bytes);
  /// Gives back what take() returned; debug builds fill it with NaN, so that a late use shows.
  void give_back(std::span<std::byte> part);

 private:
  MemoryBlock block_;
  std::int64_t front_ = 0, back_ = 0;  ///< bytes in use at either end
};

}  // namespace sluice
