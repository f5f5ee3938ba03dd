// Checked handles over the serial HDF5 library. Files are written in the format of HDF5 1.8 and before,
// without locks, so that any tool opens them at any time. The library is not thread-safe: all calls come from
// one thread of a process.
//
// Errors name the file and the object and carry HDF5's own innermost message: Error(kBadData) for what a file
// that is read lacks or holds, Error(kIo) for everything that fails while writing.
#pragma once

#include "base/dtype.hpp"

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::hdf5 {

/// Owns one HDF5 identifier of any kind. Move-only; closing it in the destructor cannot throw, and logs if it
/// fails.
class Handle {
 public:
  using Id = std::int64_t;  ///< type of hid_t, without its header
  using Close = int (*)(Id);

  Handle() = default;  ///< an empty handle
  Handle(Id id, Close close) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept;
  Handle& operator=(Handle&& other) noexcept;
  ~Handle();

  [[nodiscard]] Id id() const { return id_; }
  [[nodiscard]] Id release();

 private:
  Id id_ = -1;
  Close close_ = nullptr;
};

template <class T>
concept Element = std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t> || std::same_as<T, float> ||
    std::same_as<T, double>;

/// A hyperslab of a dataset: elements [begin[d], begin[d] + count[d]) in each dimension d.
struct Hyperslab {
  std::vector<std::int64_t> begin;
  std::vector<std::int64_t> count;
};

/// Layout in which a new dataset is stored.
struct Storage {
  /// Rows per block of a dataset that can grow; 0: fixed size and contiguous. The first dimension begins at
  /// 0, and room is taken block by block when the extent enters a new block. Rows bypass the library's cache:
  /// write() goes to the kernel at once.
  std::int64_t block_rows = 0;
  /// Whether rows of a block take no disk until they are written, and read as anything until then. Otherwise
  /// a block is filled with zeros when it is taken. Setting fewer rows within a block fills the rest of it in
  /// any case.
  bool holes = false;
};

/// An open dataset. Its file must stay open as long as the dataset.
class Dataset {
 public:
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::vector<std::int64_t> shape() const;
  [[nodiscard]] bool is_integer() const;
  [[nodiscard]] bool is_floating() const;
  /// Whether the elements are names for whole numbers, as h5py writes booleans; they are read as those
  /// numbers.
  [[nodiscard]] bool is_enumeration() const;
  /// Whether the dataset is virtual: its elements lie in other datasets.
  [[nodiscard]] bool is_virtual() const;
  /// Why parts of the dataset cannot be read, in words; "" if all can: parts that were never written; parts
  /// of a virtual dataset without a readable source, for which HDF5 reads fill values without an error;
  /// missing filters; compressed chunks that are too large; data in files of another format.
  [[nodiscard]] std::string unreadable_reason() const;

  /// Reads a hyperslab, row-major, converted by HDF5 (integers out of range are clipped). `out` has as many
  /// elements.
  template <Element T>
  void read(const Hyperslab& box, std::span<T> out) const;
  /// Reads all elements, row-major.
  template <Element T>
  [[nodiscard]] std::vector<T> read() const;

  template <Element T>
  void write(const Hyperslab& box, std::span<const T> data);
  /// Writes all elements, row-major.
  template <Element T>
  void write(std::span<const T> data);

  /// Sets the size of the first dimension of a dataset made with block_rows.
  void set_rows(std::int64_t rows);

 private:
  friend class File;
  Dataset(std::string file, std::string name, Handle handle);
  std::string file_;
  std::string name_;
  Handle handle_;
};

/// An open file. Paths of objects are absolute: "/train/loss"; "/" is the root group.
class File {
 public:
  /// Opens a file for reading. Error(kBadData) if the file is missing, not a regular file or not HDF5.
  static File open(const std::filesystem::path& path);
  /// Creates a file; an existing one is Error(kIo) and stays as it is. Messages name the file `shown_name`,
  /// or by its path.
  static File create(const std::filesystem::path& path, std::string shown_name = "");

  /// Opens a file that create() made, to change what its datasets and attributes hold. Error(kBadData) as open().
  static File open_to_change(const std::filesystem::path& path);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool exists(const std::string& path) const;
  /// Names of a group's members, in alphabetical order.
  [[nodiscard]] std::vector<std::string> children(const std::string& group) const;

  /// Opens a dataset. Error(kBadData) also if `path` is a link into another file, or a symbolic link.
  [[nodiscard]] Dataset dataset(const std::string& path) const;
  /// Creates a dataset, and the groups above it. An empty shape is a scalar.
  Dataset create_dataset(const std::string& path, DType dtype, const std::vector<std::int64_t>& shape,
                         Storage storage = {});
  void create_group(const std::string& path);
  /// Creates a second name for an object of this file.
  void create_link(const std::string& path, const std::string& target);

  /// Sets an attribute of the object at `path`; the name must be new. Text is of variable length, UTF-8.
  void set_attribute(const std::string& path, const std::string& name, std::string_view text);
  void set_attribute(const std::string& path, const std::string& name, std::span<const std::int64_t> values);
  void set_attribute(const std::string& path, const std::string& name, std::span<const double> values);
  void set_attribute(const std::string& path, const std::string& name, std::int64_t value);
  /// Changes the number in an attribute.
  void change_attribute(const std::string& path, const std::string& name, std::int64_t value);
  [[nodiscard]] bool has_attribute(const std::string& path, const std::string& name) const;
  [[nodiscard]] std::string text_attribute(const std::string& path, const std::string& name) const;
  template <Element T>
  [[nodiscard]] std::vector<T> attribute(const std::string& path, const std::string& name) const;

  /// Lengthens the file beforehand by `bytes` bytes, into which datasets then grow: if the disk has no room,
  /// nothing refers to it yet, and the file stays sound.
  void reserve(std::int64_t bytes);
  /// Hands everything to the kernel: afterwards a killed process loses nothing, and other processes can open
  /// the file. A kill during the call costs at most what was written since the last call, if that was rows of
  /// datasets with at most 64 blocks and no new object.
  void flush();
  void close();

 private:
  File(std::string name, Handle handle, int descriptor);
  [[nodiscard]] std::int64_t allocated_bytes() const;
  /// Lengthens the file, never shortens it; returns the length before.
  std::int64_t lengthen(std::int64_t bytes);
  void declare_length();
  std::string name_;
  Handle handle_;
  std::int64_t declared_bytes_ = 0;  ///< length in bytes that declare_length() wrote last
  int descriptor_;                   ///< HDF5's own descriptor of a file that is written; -1 when reading
};

/// Version of the HDF5 library that is loaded, "1.10.8".
[[nodiscard]] std::string library_version();

}  // namespace sluice::hdf5
