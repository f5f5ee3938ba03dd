#include "io/hdf5.hpp"

#include "base/checked.hpp"
#include "base/text.hpp"
#include "io/file.hpp"
#include "io/hdf5_check.hpp"

#include <sys/stat.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

namespace sluice::hdf5 {
namespace {

/// "End of File Address" in a superblock of version 0 (HDF5 File Format Specification, II.A), 8 bytes
/// little-endian.
constexpr off_t kEndOfFileField = 40;

std::array<unsigned char, 8> little_endian(std::uint64_t value) {
  std::array<unsigned char, 8> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(value >> (8 * i));
  return bytes;
}

Handle file_access(const Doing& doing) {
  Handle access = own<H5Pclose>(H5Pcreate(H5P_FILE_ACCESS), doing);
  // File locks would keep readers out while the job runs, and some network file systems have none.
  check(H5Pset_file_locking(access.id(), false, true), doing);
  check(H5Pset_fclose_degree(access.id(), H5F_CLOSE_SEMI), doing);
  return access;
}

Handle creating_access(const Doing& doing) {
  Handle access = file_access(doing);
  check(H5Pset_libver_bounds(access.id(), H5F_LIBVER_EARLIEST, H5F_LIBVER_V18), doing);
  return access;
}

/// HDF5's own descriptor of an open file.
int descriptor_of(const Handle& file, const Handle& access, const Doing& doing) {
  void* descriptor = nullptr;
  check(H5Fget_vfd_handle(file.id(), access.id(), &descriptor), doing);
  return *static_cast<int*>(descriptor);
}

Handle space_of(const std::vector<hsize_t>& shape, bool can_grow, const Doing& doing) {
  if (shape.empty()) return own<H5Sclose>(H5Screate(H5S_SCALAR), doing);
  std::vector<hsize_t> most = shape;
  if (can_grow) most[0] = H5S_UNLIMITED;
  return own<H5Sclose>(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), most.data()), doing);
}

Handle creation_properties(const std::vector<hsize_t>& shape, const Storage& storage, const Doing& doing) {
  Handle properties = own<H5Pclose>(H5Pcreate(H5P_DATASET_CREATE), doing);
  check(H5Pset_obj_track_times(properties.id(), false), doing);
  if (storage.block_rows == 0) return properties;
  std::vector<hsize_t> block = shape;
  block[0] = checked_cast<hsize_t>(storage.block_rows);
  check(H5Pset_chunk(properties.id(), static_cast<int>(block.size()), block.data()), doing);
  check(H5Pset_alloc_time(properties.id(), H5D_ALLOC_TIME_EARLY), doing);
  if (storage.holes) check(H5Pset_fill_time(properties.id(), H5D_FILL_TIME_NEVER), doing);
  return properties;
}

Handle access_properties(const Storage& storage, const Doing& doing) {
  Handle properties = own<H5Pclose>(H5Pcreate(H5P_DATASET_ACCESS), doing);
  // With a cache of no bytes, each row is written to the file by itself, and no whole block is rewritten.
  if (storage.block_rows > 0)
    check(H5Pset_chunk_cache(properties.id(), 1, 0, H5D_CHUNK_CACHE_W0_DEFAULT), doing);
  return properties;
}

/// Bytes of one chunk in memory; 0 for a dataset without chunks.
std::size_t chunk_bytes(hid_t dataset, const Doing& doing) {
  const Handle properties = own<H5Pclose>(H5Dget_create_plist(dataset), doing);
  if (check(H5Pget_layout(properties.id()), doing) != H5D_CHUNKED) return 0;
  std::array<hsize_t, H5S_MAX_RANK> sizes{};
  const int rank = check(H5Pget_chunk(properties.id(), H5S_MAX_RANK, sizes.data()), doing);
  const Handle type = own<H5Tclose>(H5Dget_type(dataset), doing);
  std::size_t bytes = H5Tget_size(type.id());  // a chunk has less than 4 GiB
  for (int i = 0; i < rank; ++i) bytes *= sizes[static_cast<std::size_t>(i)];
  return bytes;
}

/// Opens a dataset with a cache that holds a compressed chunk: in the library's cache of 1 MiB a larger chunk
/// would be read and unpacked again for each row.
Handle open_dataset(hid_t file, const std::string& path, const Doing& doing) {
  constexpr std::size_t kLibrarysCache = 1 << 20, kMaxCache = 64 << 20;
  const auto open = [&](hid_t access) { return own<H5Dclose>(H5Dopen2(file, path.c_str(), access), doing); };
  Handle dataset = open(H5P_DEFAULT);
  const std::size_t bytes = chunk_bytes(dataset.id(), doing);
  if (bytes <= kLibrarysCache || bytes > kMaxCache) return dataset;
  const Handle access = own<H5Pclose>(H5Pcreate(H5P_DATASET_ACCESS), doing);
  check(H5Pset_chunk_cache(access.id(), H5D_CHUNK_CACHE_NSLOTS_DEFAULT, bytes, H5D_CHUNK_CACHE_W0_DEFAULT),
        doing);
  dataset = {};  // closes the handle first, because the first one to open a dataset sets its cache
  return open(access.id());
}

/// Refuses other links: they lead to files that were not checked, and opening one may wait for ever.
void require_hard_link(hid_t file, const std::string& path, const Doing& doing) {
  H5L_info_t info{};
  check(H5Lget_info(file, path.c_str(), &info, H5P_DEFAULT), doing);
  if (info.type == H5L_TYPE_HARD) return;
  std::string target(info.u.val_size, '\0');
  check(H5Lget_val(file, path.c_str(), target.data(), target.size(), H5P_DEFAULT), doing);
  const char *name = nullptr, *object = nullptr;
  if (info.type == H5L_TYPE_EXTERNAL &&
      H5Lunpack_elink_val(target.data(), target.size(), nullptr, &name, &object) >= 0)
    target = fmt::format("{} in the file {}", object, name);
  fail({ExitCode::kBadData, "io.hdf5"},
       "{} of {} is {} link, to {}; links are not followed: name the file that holds the data, and give the "
       "dataset its name there",
       path, doing.file, info.type == H5L_TYPE_EXTERNAL ? "an external" : "a symbolic",
       printable(target.c_str(), 200));
}

Handle link_properties(const Doing& doing) {
  Handle properties = own<H5Pclose>(H5Pcreate(H5P_LINK_CREATE), doing);
  check(H5Pset_create_intermediate_group(properties.id(), 1), doing);
  return properties;
}

Handle text_type(const Doing& doing) {
  Handle type = own<H5Tclose>(H5Tcopy(H5T_C_S1), doing);
  check(H5Tset_size(type.id(), H5T_VARIABLE), doing);
  check(H5Tset_cset(type.id(), H5T_CSET_UTF8), doing);
  return type;
}

void write_attribute(hid_t file, const std::string& path, const std::string& name, hid_t stored, hid_t given,
                     std::optional<std::size_t> count, const void* values, const std::string& file_name) {
  const std::string object = path + "@" + name;
  const Doing doing{ExitCode::kIo, "write the attribute", object, file_name};
  const Handle space = space_of(count ? std::vector<hsize_t>{*count} : std::vector<hsize_t>{}, false, doing);
  const Handle attribute = own<H5Aclose>(H5Acreate_by_name(file, path.c_str(), name.c_str(), stored,
                                                           space.id(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                                         doing);
  check(H5Awrite(attribute.id(), given, values), doing);
}

Handle open_attribute(hid_t file, const std::string& path, const std::string& name, const Doing& doing) {
  return own<H5Aclose>(H5Aopen_by_name(file, path.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT), doing);
}

}  // namespace

File::File(std::string name, Handle handle, int descriptor)
    : name_(std::move(name)), handle_(std::move(handle)), descriptor_(descriptor) {}

File File::open(const std::filesystem::path& path) {
  silence();
  // Opening the file here first tells a missing file from a damaged one; and HDF5 would wait on a FIFO.
  static_cast<void>(InputFile::open(path));
  const std::string name = path.string();
  const Doing doing{ExitCode::kBadData, "open", "", name};
  const Handle access = file_access(doing);
  return File(name, own<H5Fclose>(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id()), doing), -1);
}

File File::create(const std::filesystem::path& path, std::string shown_name) {
  silence();
  const std::string name = shown_name.empty() ? path.string() : std::move(shown_name);
  if (path.has_parent_path() && !std::filesystem::is_directory(path.parent_path()))
    fail({ExitCode::kIo, "io.not_found"}, "cannot create {}: there is no directory {}", name,
         path.parent_path().string());
  if (std::filesystem::exists(path))
    fail({ExitCode::kIo, "io.exists"}, "cannot create {}: it exists already", name);
  const Doing doing{ExitCode::kIo, "create", "", name};
  const Handle access = creating_access(doing);
  Handle file = own<H5Fclose>(H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, access.id()), doing);
  const int descriptor = descriptor_of(file, access, doing);
  H5F_info2_t info;
  check(H5Fget_info2(file.id(), &info), doing);
  SLUICE_ASSERT(info.super.version == 0,
                "{} has a superblock of version {}, which this version does not write", name,
                info.super.version);
  return File(name, std::move(file), descriptor);
}

File File::open_to_change(const std::filesystem::path& path) {
  silence();
  static_cast<void>(InputFile::open(path));
  const std::string name = path.string();
  const Doing doing{ExitCode::kBadData, "open", "", name};
  const Handle access = creating_access(doing);
  Handle file = own<H5Fclose>(H5Fopen(path.c_str(), H5F_ACC_RDWR, access.id()), doing);
  const int descriptor = descriptor_of(file, access, doing);
  File opened(name, std::move(file), descriptor);
  // Nothing grows, and the library itself cuts off what the file has behind its objects.
  opened.declared_bytes_ = opened.allocated_bytes();
  return opened;
}

bool File::exists(const std::string& path) const {
  const Doing doing{ExitCode::kBadData, "look for", path, name_};
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string prefix = path.substr(0, end);
    if (prefix != "/" && check(H5Lexists(handle_.id(), prefix.c_str(), H5P_DEFAULT), doing) == 0)
      return false;
    if (end == std::string::npos) return true;
  }
}

std::vector<std::string> File::children(const std::string& group) const {
  const Doing doing{ExitCode::kBadData, "list", group, name_};
  const Handle handle = own<H5Gclose>(H5Gopen2(handle_.id(), group.c_str(), H5P_DEFAULT), doing);
  H5G_info_t info;
  check(H5Gget_info(handle.id(), &info), doing);
  std::vector<std::string> names;
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    const auto name_at = [&](char* text, std::size_t size) {
      return check(
          H5Lget_name_by_idx(handle.id(), ".", H5_INDEX_NAME, H5_ITER_INC, i, text, size, H5P_DEFAULT),
          doing);
    };
    std::string& name = names.emplace_back(static_cast<std::size_t>(name_at(nullptr, 0)), '\0');
    name_at(name.data(), name.size() + 1);
  }
  return names;
}

Dataset File::dataset(const std::string& path) const {
  if (!exists(path)) fail({ExitCode::kBadData, "io.hdf5"}, "{} has no dataset {}", name_, path);
  const Doing doing{ExitCode::kBadData, "open the dataset", path, name_};
  require_hard_link(handle_.id(), path, doing);
  return Dataset(name_, path, open_dataset(handle_.id(), path, doing));
}

Dataset File::create_dataset(const std::string& path, DType dtype, const std::vector<std::int64_t>& shape,
                             Storage storage) {
  const bool grows = storage.block_rows > 0;
  SLUICE_ASSERT(!grows || (!shape.empty() && shape[0] == 0),
                "dataset {}: a dataset that can grow must begin without rows", path);
  const Doing doing{ExitCode::kIo, "create the dataset", path, name_};
  const std::vector<hsize_t> sizes = to_sizes(shape);
  const Handle space = space_of(sizes, grows, doing);
  const Handle link = link_properties(doing);
  const Handle creation = creation_properties(sizes, storage, doing);
  const Handle access = access_properties(storage, doing);
  Dataset dataset(name_, path,
                  own<H5Dclose>(H5Dcreate2(handle_.id(), path.c_str(), file_type(dtype), space.id(),
                                           link.id(), creation.id(), access.id()),
                                doing));
  if (grows) {  // writes once, so that the index of blocks exists before the first row
    dataset.set_rows(1);
    dataset.set_rows(0);
  }
  return dataset;
}

void File::create_group(const std::string& path) {
  const Doing doing{ExitCode::kIo, "create the group", path, name_};
  const Handle link = link_properties(doing);
  own<H5Gclose>(H5Gcreate2(handle_.id(), path.c_str(), link.id(), H5P_DEFAULT, H5P_DEFAULT), doing);
}

void File::create_link(const std::string& path, const std::string& target) {
  const Doing doing{ExitCode::kIo, "create the link", path, name_};
  check(H5Lcreate_hard(handle_.id(), target.c_str(), handle_.id(), path.c_str(), H5P_DEFAULT, H5P_DEFAULT),
        doing);
}

void File::set_attribute(const std::string& path, const std::string& name, std::string_view text) {
  const Handle type = text_type({ExitCode::kIo, "write the attribute", name, name_});
  const std::string terminated(text);
  const char* pointer = terminated.c_str();
  write_attribute(handle_.id(), path, name, type.id(), type.id(), std::nullopt,
                  static_cast<const void*>(&pointer), name_);
}

void File::set_attribute(const std::string& path, const std::string& name,
                         std::span<const std::int64_t> values) {
  write_attribute(handle_.id(), path, name, H5T_STD_I64LE, H5T_NATIVE_INT64, values.size(), values.data(),
                  name_);
}

void File::set_attribute(const std::string& path, const std::string& name, std::span<const double> values) {
  write_attribute(handle_.id(), path, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, values.size(), values.data(),
                  name_);
}

void File::set_attribute(const std::string& path, const std::string& name, std::int64_t value) {
  write_attribute(handle_.id(), path, name, H5T_STD_I64LE, H5T_NATIVE_INT64, std::nullopt, &value, name_);
}

void File::change_attribute(const std::string& path, const std::string& name, std::int64_t value) {
  const std::string object = path + "@" + name;
  const Doing doing{ExitCode::kIo, "write the attribute", object, name_};
  const Handle attribute = open_attribute(handle_.id(), path, name, doing);
  check(H5Awrite(attribute.id(), H5T_NATIVE_INT64, &value), doing);
}

bool File::has_attribute(const std::string& path, const std::string& name) const {
  const std::string object = path + "@" + name;
  return check(H5Aexists_by_name(handle_.id(), path.c_str(), name.c_str(), H5P_DEFAULT),
               {ExitCode::kBadData, "read the attribute", object, name_}) > 0;
}

std::string File::text_attribute(const std::string& path, const std::string& name) const {
  const std::string object = path + "@" + name;
  const Doing doing{ExitCode::kBadData, "read the attribute", object, name_};
  const Handle attribute = open_attribute(handle_.id(), path, name, doing);
  const Handle type = text_type(doing);
  char* pointer = nullptr;
  check(H5Aread(attribute.id(), type.id(), static_cast<void*>(&pointer)), doing);
  const std::string text = pointer ? pointer : "";
  check(H5free_memory(pointer), doing);
  return text;
}

template <Element T>
std::vector<T> File::attribute(const std::string& path, const std::string& name) const {
  const std::string object = path + "@" + name;
  const Doing doing{ExitCode::kBadData, "read the attribute", object, name_};
  const Handle attribute = open_attribute(handle_.id(), path, name, doing);
  const Handle space = own<H5Sclose>(H5Aget_space(attribute.id()), doing);
  std::vector<T> values(static_cast<std::size_t>(check(H5Sget_simple_extent_npoints(space.id()), doing)));
  check(H5Aread(attribute.id(), memory_type<T>(), values.data()), doing);
  return values;
}

template std::vector<std::int32_t> File::attribute(const std::string&, const std::string&) const;
template std::vector<std::int64_t> File::attribute(const std::string&, const std::string&) const;
template std::vector<float> File::attribute(const std::string&, const std::string&) const;
template std::vector<double> File::attribute(const std::string&, const std::string&) const;

void File::reserve(std::int64_t bytes) { lengthen(allocated_bytes() + bytes); }

void File::flush() {
  declare_length();
  check(H5Fflush(handle_.id(), H5F_SCOPE_LOCAL), {ExitCode::kIo, "flush", "", name_});
}

std::int64_t File::allocated_bytes() const {
  hsize_t bytes = 0;
  check(H5Fget_filesize(handle_.id(), &bytes), {ExitCode::kIo, "examine", "", name_});
  return checked_cast<std::int64_t>(bytes);
}

std::int64_t File::lengthen(std::int64_t bytes) {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0)
    fail(write_failure(errno), "cannot examine {}: {}", name_, errno_text(errno));
  if (status.st_size < bytes && ::ftruncate(descriptor_, bytes) != 0)
    fail(write_failure(errno), "cannot lengthen {} to {} bytes: {}", name_, bytes, errno_text(errno));
  return status.st_size;
}

/// A flush writes references to new room before the superblock, which holds the file's length; a kill in
/// between would leave references beyond the end, and lose old rows with them. So the length goes first, as 8
/// bytes in place, and before it the file is lengthened: a file shorter than its superblock says does not
/// open.
void File::declare_length() {
  const std::int64_t bytes = allocated_bytes();
  if (bytes <= declared_bytes_) return;
  const bool has_superblock = lengthen(bytes) > 0;
  const std::array<unsigned char, 8> field = little_endian(static_cast<std::uint64_t>(bytes));
  if (has_superblock &&
      ::pwrite(descriptor_, field.data(), field.size(), kEndOfFileField) != std::ssize(field))
    fail(write_failure(errno), "cannot write {} at offset {}: {}", name_, kEndOfFileField, errno_text(errno));
  declared_bytes_ = bytes;
}

void File::close() {
  if (descriptor_ >= 0) flush();
  check(H5Fclose(handle_.release()), {ExitCode::kIo, "close", "", name_});
}

}  // namespace sluice::hdf5
