// In place of src/ops/device/device_type.cpp.
#include "ops/device/device_type.hpp"

namespace sluice::ops::device {

c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

}  // namespace sluice::ops::device
