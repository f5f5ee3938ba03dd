#include "io/hdf5_check.hpp"

#include "base/checked.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

#include <utility>

namespace sluice::hdf5 {
namespace {

herr_t keep_first(unsigned depth, const H5E_error2_t* error, void* text) {
  if (depth == 0 && error->desc) *static_cast<std::string*>(text) = error->desc;
  return 0;
}

/// The message of the innermost error frame; outer frames repeat it in wider words.
std::string innermost_message() {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &text);
  return text.empty() ? "no reason given" : printable(text, 300);
}

}  // namespace

void fail_doing(const Doing& doing) {
  const std::string_view of = doing.object.empty() ? "" : " of ";
  fail({doing.code, "io.hdf5"}, "cannot {} {}{}{}: HDF5 says: {}", doing.what, doing.object, of, doing.file,
       innermost_message());
}

void silence() {
  // Without this HDF5's exit handler would close what is still open, and crash over a file that a failing
  // disk kept from closing.
  static const herr_t no_cleanup = H5dont_atexit();
  static_cast<void>(no_cleanup);  // fails if another user of the library was first, which does no harm
  static const herr_t once = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  SLUICE_ASSERT(once >= 0, "the HDF5 library does not start");
}

Handle::Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}

Handle& Handle::operator=(Handle&& other) noexcept {
  std::swap(id_, other.id_);
  std::swap(close_, other.close_);
  return *this;
}

Handle::~Handle() {
  if (id_ >= 0 && close_(id_) < 0)
    log::warning("an HDF5 object could not be closed: {}", innermost_message());
}

Handle::Id Handle::release() { return std::exchange(id_, -1); }

template <>
hid_t memory_type<std::int32_t>() {
  return H5T_NATIVE_INT32;
}
template <>
hid_t memory_type<std::int64_t>() {
  return H5T_NATIVE_INT64;
}
template <>
hid_t memory_type<float>() {
  return H5T_NATIVE_FLOAT;
}
template <>
hid_t memory_type<double>() {
  return H5T_NATIVE_DOUBLE;
}

hid_t file_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return H5T_IEEE_F32LE;
    case DType::kFloat64:
      return H5T_IEEE_F64LE;
    case DType::kInt8:
      return H5T_STD_I8LE;
    case DType::kInt16:
      return H5T_STD_I16LE;
    case DType::kInt32:
      return H5T_STD_I32LE;
    case DType::kInt64:
      return H5T_STD_I64LE;
    case DType::kUInt8:
      return H5T_STD_U8LE;
    case DType::kUInt16:
      return H5T_STD_U16LE;
    case DType::kUInt32:
      return H5T_STD_U32LE;
    case DType::kUInt64:
      return H5T_STD_U64LE;
    default:
      fail(ExitCode::kInternal, "HDF5 files hold no {}", name_of(dtype));
  }
}

std::vector<hsize_t> to_sizes(const std::vector<std::int64_t>& shape) {
  std::vector<hsize_t> sizes;
  for (const std::int64_t size : shape) sizes.push_back(checked_cast<hsize_t>(size));
  return sizes;
}

std::vector<std::int64_t> shape_of(hid_t space, const Doing& doing) {
  std::vector<hsize_t> sizes(check(H5Sget_simple_extent_ndims(space), doing));
  check(H5Sget_simple_extent_dims(space, sizes.data(), nullptr), doing);
  return {sizes.begin(), sizes.end()};
}

std::string library_version() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

}  // namespace sluice::hdf5
