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
  using Id = std::int64_t;  ///< hid_t without its header
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

/// A box inside a dataset: elements [begin[d], begin[d] + count[d]) of each dimension d.
struct Hyperslab {
  std::vector<std::int64_t> begin;
  std::vector<std::int64_t> count;
};

/// How a new dataset is stored.
struct Storage {
  /// 0: fixed size and contiguous. Otherwise the first dimension, 0 at first, can grow, and room is taken in
  /// blocks of this many rows whenever the extent enters a new block. Rows bypass the library's cache:
  /// write() goes to the kernel at once.
  std::int64_t block_rows = 0;
  /// Rows of a block take no disk until they are written, and read as anything until then. Otherwise a block
  /// is filled with zeros when it is taken. Setting fewer rows within a block fills the rest of it in any
  /// case.
  bool holes = false;
};

/// An open dataset. Its file must stay open as long.
class Dataset {
 public:
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::vector<std::int64_t> shape() const;
  [[nodiscard]] bool is_integer() const;
  [[nodiscard]] bool is_floating() const;
  /// Whether its elements are names for whole numbers, as h5py writes booleans; they are read as those
  /// numbers.
  [[nodiscard]] bool is_enumeration() const;
  /// Whether other datasets hold what this one shows.
  [[nodiscard]] bool is_virtual() const;
  /// Why parts cannot be read, in words; empty if all can: parts that were never written, and of a virtual
  /// dataset those without a readable source, for which HDF5 reads fill values without an error; missing
  /// filters; compressed chunks that are too large; data in files of another format.
  [[nodiscard]] std::string unreadable_reason() const;

  /// Reads a box, row-major, converted by HDF5 (out-of-range integers are clipped). `out` has the box's
  /// elements.
  template <Element T>
  void read(const Hyperslab& box, std::span<T> out) const;
  /// All elements, row-major.
  template <Element T>
  [[nodiscard]] std::vector<T> read() const;

  template <Element T>
  void write(const Hyperslab& box, std::span<const T> data);
  /// All elements, row-major.
  template <Element T>
  void write(std::span<const T> data);

  /// Sets the first dimension of a dataset made with block_rows.
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
  /// A new file; an existing one is Error(kIo) and stays as it is. Messages call it `shown_name`, or its
  /// path.
  static File create(const std::filesystem::path& path, std::string shown_name = "");

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool exists(const std::string& path) const;
  /// Names of what a group holds, in alphabetical order.
  [[nodiscard]] std::vector<std::string> children(const std::string& group) const;

  /// Error(kBadData) also if `path` is a link into another file, or one by name.
  [[nodiscard]] Dataset dataset(const std::string& path) const;
  /// Groups on the way are made. An empty shape is a scalar.
  Dataset create_dataset(const std::string& path, DType dtype, const std::vector<std::int64_t>& shape,
                         Storage storage = {});
  void create_group(const std::string& path);
  /// A second name for an object of this file.
  void create_link(const std::string& path, const std::string& target);

  /// Attributes of the object at `path`; the name must be new. Text is of variable length, UTF-8.
  void set_attribute(const std::string& path, const std::string& name, std::string_view text);
  void set_attribute(const std::string& path, const std::string& name, std::span<const std::int64_t> values);
  void set_attribute(const std::string& path, const std::string& name, std::span<const double> values);
  void set_attribute(const std::string& path, const std::string& name, std::int64_t value);
  /// Another number in an attribute that holds one.
  void change_attribute(const std::string& path, const std::string& name, std::int64_t value);
  [[nodiscard]] std::string text_attribute(const std::string& path, const std::string& name) const;
  template <Element T>
  [[nodiscard]] std::vector<T> attribute(const std::string& path, const std::string& name) const;

  /// Makes the file longer than it need be, by `bytes`, before datasets grow into that room: where it cannot
  /// be had, nothing refers to it yet, and the file stays sound.
  void reserve(std::int64_t bytes);
  /// Hands everything to the kernel: after it a killed process loses nothing, and other processes can open
  /// the file. A kill in the midst of it costs at most what was written since the last one, if that was rows
  /// of datasets with at most 64 blocks and no new object.
  void flush();
  void close();

 private:
  File(std::string name, Handle handle, int descriptor);
  [[nodiscard]] std::int64_t allocated_bytes() const;
  /// Returns the length before. Never shortens.
  std::int64_t lengthen(std::int64_t bytes);
  void declare_length();
  std::string name_;
  Handle handle_;
  std::int64_t declared_bytes_ = 0;  ///< bytes that declare_length() wrote last
  int descriptor_;                   ///< HDF5's own descriptor of a file being written; -1 when reading
};

/// "1.10.8", of the library that is loaded.
[[nodiscard]] std::string library_version();

}  // namespace sluice::hdf5
