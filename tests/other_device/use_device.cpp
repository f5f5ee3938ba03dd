// A test that has this in it computes on the device that is none; jobs choose it by device.kind.
#include "device/memory.hpp"

namespace sluice::other_device {
namespace {

const bool kUsed = [] {
  compute_in(MemoryKind::kDevice);
  return true;
}();

}  // namespace
}  // namespace sluice::other_device
