// Source of shards of stored units that are kept outside memory.
#pragma once

#include <cstddef>
#include <functional>

namespace sluice {

class UnitBytes {
 public:
  /// Order in which units are asked for: forward or backward over the layers.
  enum class Order : bool { kForward, kBackward };

  UnitBytes() = default;
  virtual ~UnitBytes() = default;
  UnitBytes(const UnitBytes&) = delete;
  UnitBytes& operator=(const UnitBytes&) = delete;

  /// Announces the order in which units will be asked for from now on.
  virtual void begin_pass(Order order) = 0;
  /// Calls `examine` once with the bytes of each unit when they are read next, before bytes() returns them.
  /// The call runs in another thread; bytes() throws its errors.
  virtual void examine_first(std::function<void(int unit, const std::byte* bytes)> examine) = 0;
  /// First byte of this rank's shard of a unit, as StoredLayout places it. Waits until the shard is in
  /// memory, where it stays until another unit is asked for. Error(kBadData) if its file was changed;
  /// Error(kIo) if its file cannot be read.
  [[nodiscard]] virtual std::byte* bytes(int unit) = 0;
};

}  // namespace sluice
