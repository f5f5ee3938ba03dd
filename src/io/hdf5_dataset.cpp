#include "base/checked.hpp"
#include "base/text.hpp"
#include "io/hdf5.hpp"
#include "io/hdf5_check.hpp"

#include <utility>

namespace sluice::hdf5 {
namespace {

std::int64_t element_count(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    const std::optional<std::int64_t> product = multiply(count, size);
    SLUICE_ASSERT(product, "shape {} has too many elements", shape_text(shape));
    count = *product;
  }
  return count;
}

Box whole(std::vector<std::int64_t> shape) {
  return {std::vector<std::int64_t>(shape.size(), 0), std::move(shape)};
}

/// The two dataspaces of a transfer of `box`: where it lies in the file, and row-major in memory.
struct Selection {
  Handle file;
  Handle memory;
};

Selection select(hid_t dataset, const Box& box, const Doing& doing) {
  const std::vector<hsize_t> begin = to_sizes(box.begin);
  const std::vector<hsize_t> count = to_sizes(box.count);
  Selection selection{
      own<H5Sclose>(H5Dget_space(dataset), doing),
      own<H5Sclose>(count.empty() ? H5Screate(H5S_SCALAR)
                                  : H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr),
                    doing)};
  const std::size_t rank = shape_of(selection.file.id(), doing).size();
  SLUICE_ASSERT(rank == begin.size() && rank == count.size(), "a box of rank {} for {}, which has rank {}",
                count.size(), doing.object, rank);
  if (rank > 0)
    check(H5Sselect_hyperslab(selection.file.id(), H5S_SELECT_SET, begin.data(), nullptr, count.data(),
                              nullptr),
          doing);
  return selection;
}

H5T_class_t class_of(hid_t dataset, const Doing& doing) {
  const Handle type = own<H5Tclose>(H5Dget_type(dataset), doing);
  return H5Tget_class(type.id());
}

}  // namespace

Dataset::Dataset(std::string file, std::string name, Handle handle)
    : file_(std::move(file)), name_(std::move(name)), handle_(std::move(handle)) {}

std::vector<std::int64_t> Dataset::shape() const {
  const Doing doing{ExitCode::kBadData, "read the shape of", name_, file_};
  return shape_of(own<H5Sclose>(H5Dget_space(handle_.id()), doing).id(), doing);
}

bool Dataset::is_integer() const {
  return class_of(handle_.id(), {ExitCode::kBadData, "read the type of", name_, file_}) == H5T_INTEGER;
}

bool Dataset::is_floating() const {
  return class_of(handle_.id(), {ExitCode::kBadData, "read the type of", name_, file_}) == H5T_FLOAT;
}

template <Element T>
void Dataset::read(const Box& box, std::span<T> out) const {
  SLUICE_ASSERT(std::ssize(out) == element_count(box.count), "{} places for a box of {}", out.size(),
                shape_text(box.count));
  if (out.empty()) return;
  const Doing doing{ExitCode::kBadData, "read", name_, file_};
  const Selection selection = select(handle_.id(), box, doing);
  check(H5Dread(handle_.id(), memory_type<T>(), selection.memory.id(), selection.file.id(), H5P_DEFAULT,
                out.data()),
        doing);
}

template <Element T>
std::vector<T> Dataset::read() const {
  const Box box = whole(shape());
  std::vector<T> out(checked_cast<std::size_t>(element_count(box.count)));
  read<T>(box, out);
  return out;
}

template <Element T>
void Dataset::write(const Box& box, std::span<const T> data) {
  SLUICE_ASSERT(std::ssize(data) == element_count(box.count), "{} values for a box of {}", data.size(),
                shape_text(box.count));
  if (data.empty()) return;
  const Doing doing{ExitCode::kIo, "write", name_, file_};
  const Selection selection = select(handle_.id(), box, doing);
  check(H5Dwrite(handle_.id(), memory_type<T>(), selection.memory.id(), selection.file.id(), H5P_DEFAULT,
                 data.data()),
        doing);
}

template <Element T>
void Dataset::write(std::span<const T> data) {
  write<T>(whole(shape()), data);
}

void Dataset::set_rows(std::int64_t rows) {
  std::vector<hsize_t> sizes = to_sizes(shape());
  SLUICE_ASSERT(!sizes.empty(), "{} is a scalar", name_);
  sizes[0] = checked_cast<hsize_t>(rows);
  check(H5Dset_extent(handle_.id(), sizes.data()), {ExitCode::kIo, "extend", name_, file_});
}

#define SLUICE_INSTANTIATE(T)                                      \
  template void Dataset::read<T>(const Box&, std::span<T>) const;  \
  template std::vector<T> Dataset::read<T>() const;                \
  template void Dataset::write<T>(const Box&, std::span<const T>); \
  template void Dataset::write<T>(std::span<const T>);
SLUICE_INSTANTIATE(std::int32_t)
SLUICE_INSTANTIATE(std::int64_t)
SLUICE_INSTANTIATE(float)
SLUICE_INSTANTIATE(double)
#undef SLUICE_INSTANTIATE

}  // namespace sluice::hdf5
