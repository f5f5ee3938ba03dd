// The stand-in for CUDA's runtime: the GPUs of the machine, by name.
//
//   SLUICE_STAND_IN_GPUS   names of the machine's GPUs, with commas ("H100,H100"; default: eight of one
//                          kind), or "no driver"
//   CUDA_VISIBLE_DEVICES   numbers of those that this process sees, as with CUDA
#include "runtime.hpp"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Device {
  int number;
  std::string name;
};

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

const char* gpu_names() { return std::getenv("SLUICE_STAND_IN_GPUS"); }

std::vector<Device> visible_devices() {
  const char* const names = gpu_names();
  const std::vector<std::string> machine =
      names != nullptr ? parts_of(names) : std::vector<std::string>(8, "Stand-in GPU");
  std::vector<Device> devices;
  if (const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    for (const std::string& part : parts_of(visible)) {
      const std::size_t number = std::strtoul(part.c_str(), nullptr, 10);
      if (number >= machine.size()) break;  // CUDA does not see what comes after it either
      devices.push_back({static_cast<int>(number), machine[number]});
    }
    return devices;
  }
  for (const std::string& name : machine) devices.push_back({static_cast<int>(devices.size()), name});
  return devices;
}

/// The error that a call on devices has, whatever it is.
cudaError_t driver_status() {
  if (gpu_names() != nullptr && std::strcmp(gpu_names(), "no driver") == 0)
    return cudaErrorInsufficientDriver;
  return visible_devices().empty() ? cudaErrorNoDevice : cudaSuccess;
}

thread_local int current_device = 0;

}  // namespace

extern "C" {

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = static_cast<int>(visible_devices().size());
  return driver_status();
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return driver_status();
}

cudaError_t cudaSetDevice(int device) {
  if (const cudaError_t status = driver_status(); status != cudaSuccess) return status;
  if (device < 0 || device >= static_cast<int>(visible_devices().size())) return cudaErrorInvalidDevice;
  current_device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (const cudaError_t status = driver_status(); status != cudaSuccess) return status;
  const std::vector<Device> devices = visible_devices();
  if (device < 0 || device >= static_cast<int>(devices.size())) return cudaErrorInvalidDevice;
  const Device& found = devices[static_cast<std::size_t>(device)];
  std::memset(properties, 0, sizeof *properties);
  std::snprintf(properties->name, sizeof properties->name, "%s", found.name.c_str());
  std::snprintf(properties->uuid.bytes, sizeof properties->uuid.bytes, "stand-in %d", found.number);
  properties->totalGlobalMem = sluice::stand_in::kGpuBytes;
  properties->major = 9;
  properties->multiProcessorCount = 132;
  return cudaSuccess;
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorNotReady:
      return "device not ready";
    default:
      return "invalid argument";
  }
}

cudaError_t cudaGetLastError() { return cudaSuccess; }

}  // extern "C"
