// Memory for the units of two stages that follow each other: of one that is in use, and of one that is on its
// way in or out meanwhile.
#pragma once

#include "device/memory.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sluice {

/// One block, allocated once, that fills from both ends.
class DoubleEndedBuffer {
 public:
  /// `bytes` of what two neighbours take together, at most. `purpose` is for messages.
  DoubleEndedBuffer(std::int64_t bytes, std::string_view purpose);

  /// So many bytes at an end where there is nothing. Error(kInternal) if neither is free or the other one
  /// reaches too far.
  [[nodiscard]] std::span<std::byte> take(std::int64_t bytes);
  /// What take() gave; in debug builds filled with NaN, so that a late use shows.
  void give_back(std::span<std::byte> part);

 private:
  MemoryBlock block_;
  std::int64_t front_ = 0, back_ = 0;  ///< bytes in use
};

}  // namespace sluice
