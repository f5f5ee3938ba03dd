// Source of shards of stored units that memory does not keep.
#pragma once

#include <cstddef>
#include <functional>

namespace sluice {

class UnitBytes {
 public:
  /// Order in which units are asked for.
  enum class Order : bool { kForward, kBackward };

  UnitBytes() = default;
  virtual ~UnitBytes() = default;
  UnitBytes(const UnitBytes&) = delete;
  UnitBytes& operator=(const UnitBytes&) = delete;

  /// Tells the order of the units that will be asked for from here on.
  virtual void begin_pass(Order order) = 0;
  /// Makes `examine` see the bytes of each unit once, when they are read next, before bytes() gives them. It
  /// runs in another thread, whose errors become those of bytes().
  virtual void examine_first(std::function<void(int unit, const std::byte* bytes)> examine) = 0;
  /// First byte of this rank's shard of a unit, as StoredLayout places it; waits until the shard is in
  /// memory, where it stays until another unit is asked for. Error(kBadData) if what it is read from was
  /// changed; Error(kIo) if that cannot be read.
  [[nodiscard]] virtual std::byte* bytes(int unit) = 0;
};

}  // namespace sluice
