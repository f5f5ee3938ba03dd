// Shared by the HDF5 wrappers: one check per library call, element types, and owned identifiers. Private to
// src/io.
#pragma once

#include "base/error.hpp"
#include "io/hdf5.hpp"

#include <hdf5.h>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::hdf5 {

static_assert(std::is_same_v<hid_t, Handle::Id>);

/// The action and its object, for the message of a call that fails.
struct Doing {
  ExitCode code;
  std::string_view what;    ///< action of the call: "read"
  std::string_view object;  ///< path of the object: "/train/loss"; may be empty
  std::string_view file;
};

/// Throws an Error "cannot WHAT OBJECT of FILE:" with HDF5's innermost message.
[[noreturn]] void fail_doing(const Doing& doing);

/// Returns the result of a library call; throws if it is negative, which is how all calls report failure.
template <class Result>
Result check(Result result, const Doing& doing) {
  if (result < 0) fail_doing(doing);
  return result;
}

/// Keeps the library from printing its error stacks, and from cleaning up at exit, since handles do that.
/// Must come before any other call.
void silence();

template <herr_t (*close)(hid_t)>
Handle own(hid_t id, const Doing& doing) {
  return Handle(check(id, doing), close);
}

/// HDF5 type of T in memory; and little-endian HDF5 type of `dtype` in a file (integers, float32 and float64
/// alone).
template <Element T>
hid_t memory_type();
template <>
hid_t memory_type<std::int32_t>();
template <>
hid_t memory_type<std::int64_t>();
template <>
hid_t memory_type<float>();
template <>
hid_t memory_type<double>();
hid_t file_type(DType dtype);

std::vector<hsize_t> to_sizes(const std::vector<std::int64_t>& shape);
/// Shape of a dataspace; rank 0 for a scalar.
std::vector<std::int64_t> shape_of(hid_t space, const Doing& doing);

}  // namespace sluice::hdf5
