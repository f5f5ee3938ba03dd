#include "ops/device/device_type.hpp"

namespace sluice::ops::device {

at::DeviceType device_type() { return at::DeviceType::CUDA; }

}  // namespace sluice::ops::device
