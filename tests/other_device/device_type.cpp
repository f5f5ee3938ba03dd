// In place of src/ops/device/device_type.cpp.
#include "ops/device/device_type.hpp"

namespace sluice::ops::device {

at::DeviceType device_type() { return at::DeviceType::PrivateUse1; }

}  // namespace sluice::ops::device
