#include "base/bytes.hpp"
#include "base/checked.hpp"
#include "base/round.hpp"
#include "base/text.hpp"
#include "io/hdf5.hpp"
#include "io/hdf5_check.hpp"
#include "io/path.hpp"

#include <array>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

namespace sluice::hdf5 {
namespace {

/// Number of elements of a shape; nothing if it does not fit 63 bits.
std::optional<std::int64_t> try_count(const std::vector<std::int64_t>& shape) {
  std::optional<std::int64_t> count = 1;
  for (const std::int64_t size : shape)
    if (count) count = multiply(*count, size);
  return count;
}

std::int64_t element_count(const std::vector<std::int64_t>& shape) {
  const std::optional<std::int64_t> count = try_count(shape);
  SLUICE_ASSERT(count, "shape {} has too many elements", shape_text(shape));
  return *count;
}

Hyperslab whole(std::vector<std::int64_t> shape) {
  return {std::vector<std::int64_t>(shape.size(), 0), std::move(shape)};
}

/// The two dataspaces of a transfer of a hyperslab: its selection in the file, and row-major in memory.
struct Selection {
  Handle file;
  Handle memory;
};

Selection select(hid_t dataset, const Hyperslab& box, const Doing& doing) {
  const std::vector<hsize_t> begin = to_sizes(box.begin);
  const std::vector<hsize_t> count = to_sizes(box.count);
  Selection selection{
      own<H5Sclose>(H5Dget_space(dataset), doing),
      own<H5Sclose>(count.empty() ? H5Screate(H5S_SCALAR)
                                  : H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr),
                    doing)};
  const std::size_t rank = shape_of(selection.file.id(), doing).size();
  SLUICE_ASSERT(rank == begin.size() && rank == count.size(),
                "a box of rank {} does not fit {}, which has rank {}", count.size(), doing.object, rank);
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

/// Number of chunks of a dataset of which everything was written.
hsize_t expected_chunks(hid_t creation, const std::vector<std::int64_t>& shape, const Doing& doing) {
  std::array<hsize_t, H5S_MAX_RANK> sizes{};
  check(H5Pget_chunk(creation, H5S_MAX_RANK, sizes.data()), doing);
  hsize_t chunks = 1;
  for (std::size_t i = 0; i < shape.size(); ++i)
    chunks *= divide_up(static_cast<hsize_t>(shape[i]), sizes[i]);
  return chunks;
}

/// Names of filters that this build of the library cannot decode.
std::string missing_filters(hid_t creation, const Doing& doing) {
  std::vector<std::string> missing;
  const int count = check(H5Pget_nfilters(creation), doing);
  for (int i = 0; i < count; ++i) {
    std::array<char, 64> name{};
    unsigned flags = 0;
    std::size_t values = 0;
    const H5Z_filter_t filter = check(H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &values,
                                                     nullptr, name.size(), name.data(), nullptr),
                                      doing);
    if (H5Zfilter_avail(filter) <= 0) missing.push_back(printable(name.data()));
  }
  if (missing.empty()) return "";
  return fmt::format("it is compressed by {}, which this HDF5 library cannot undo; gzip it always can",
                     join_some(missing));
}

std::string missing_chunks(hid_t dataset, hid_t creation, const std::vector<std::int64_t>& shape,
                           const Doing& doing) {
  if (std::string filters = missing_filters(creation, doing); !filters.empty()) return filters;
  const hsize_t expected = expected_chunks(creation, shape, doing);
  hsize_t there = 0;
  const Handle space = own<H5Sclose>(H5Dget_space(dataset), doing);
  check(H5Dget_num_chunks(dataset, space.id(), &there), doing);
  if (there >= expected) return "";
  return fmt::format(
      "{} of its {} chunks were never written; was the program that writes it stopped too early?",
      expected - there, expected);
}

/// Bytes of one chunk in memory.
std::int64_t chunk_bytes(hid_t dataset, hid_t creation, const Doing& doing) {
  std::array<hsize_t, H5S_MAX_RANK> sizes{};
  const int rank = check(H5Pget_chunk(creation, H5S_MAX_RANK, sizes.data()), doing);
  const Handle type = own<H5Tclose>(H5Dget_type(dataset), doing);
  std::size_t bytes = H5Tget_size(type.id());  // a chunk has less than 4 GiB
  for (int i = 0; i < rank; ++i) bytes *= sizes[static_cast<std::size_t>(i)];
  return static_cast<std::int64_t>(bytes);
}

/// Fault of a dataset whose chunks no cache holds: each would be unpacked again for every row that is read.
std::string too_large_chunks(hid_t dataset, hid_t creation, const Doing& doing) {
  constexpr std::int64_t kMostBytes = 64 * kMiB;
  const std::int64_t bytes = chunk_bytes(dataset, creation, doing);
  if (check(H5Pget_nfilters(creation), doing) == 0 || bytes <= kMostBytes) return "";
  return fmt::format(
      "its compressed chunks hold {} each, and at most {} can be unpacked at a time. Write it in smaller "
      "ones: h5py's create_dataset(\"tokens\", data=ids, chunks=(1 << 20,), compression=\"gzip\"), or "
      "h5repack -l CHUNK=1048576",
      format_bytes(bytes), format_bytes(kMostBytes));
}

template <class Get>
std::string name_in(const Get& get, const Doing& doing) {
  std::string name(static_cast<std::size_t>(check(get(nullptr, 0), doing)), '\0');
  check(get(name.data(), name.size() + 1), doing);
  return name;
}

/// Path at which HDF5 finds a source of a virtual dataset: beside the file that names it, then in the working
/// directory.
std::filesystem::path place_of(const std::string& source, const std::string& file) {
  if (source == ".") return file;
  std::error_code error;
  const std::filesystem::path beside = std::filesystem::path(file).parent_path() / source;
  return std::filesystem::exists(beside, error) ? beside : std::filesystem::path(source);
}

/// Whether a dataset of the given shape has all selected elements.
bool reaches(hid_t selection, const std::vector<std::int64_t>& shape, const Doing& doing) {
  std::array<hsize_t, H5S_MAX_RANK> begin{}, last{};
  check(H5Sget_select_bounds(selection, begin.data(), last.data()), doing);
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (last[i] >= static_cast<hsize_t>(shape[i])) return false;
  return true;
}

/// Fault of one part of a virtual dataset, or "". Adds the elements that the part covers to `elements`.
std::string unreadable_part(hid_t creation, std::size_t part, std::int64_t& elements, const Doing& doing) {
  const std::string source = name_in(
      [&](char* text, std::size_t size) { return H5Pget_virtual_filename(creation, part, text, size); },
      doing);
  const std::string dataset = name_in(
      [&](char* text, std::size_t size) { return H5Pget_virtual_dsetname(creation, part, text, size); },
      doing);
  if (source.find('%') != std::string::npos || dataset.find('%') != std::string::npos)
    return fmt::format("its source {} is a pattern for any number of files", printable(source));
  const Handle target = own<H5Sclose>(H5Pget_virtual_vspace(creation, part), doing);
  const Handle taken = own<H5Sclose>(H5Pget_virtual_srcspace(creation, part), doing);
  const hssize_t covered = H5Sget_select_npoints(target.id());
  // The file does not tell the shape of a source that is used whole.
  const bool takes_all = H5Sget_select_type(taken.id()) == H5S_SEL_ALL;
  if (covered <= 0 || (!takes_all && H5Sget_select_npoints(taken.id()) != covered))
    return fmt::format("its source {} is mapped without an end", printable(source));
  elements += covered;
  const std::filesystem::path place = place_of(source, std::string(doing.file));
  if (!path_exists(place)) return fmt::format("its sources {} are not there", printable(source));
  const File file = File::open(place);  // the file can be closed only after its datasets
  const Dataset data = file.dataset(dataset.starts_with('/') ? dataset : "/" + dataset);
  if (data.is_virtual()) return fmt::format("its source {} is virtual as well", printable(source));
  const std::vector<std::int64_t> shape = data.shape();
  if (takes_all ? element_count(shape) < covered : !reaches(taken.id(), shape, doing))
    return fmt::format("its source {} ends too early: {} has the shape {}", printable(source), dataset,
                       shape_text(shape));
  const std::string reason = data.unreadable_reason();
  return reason.empty() ? ""
                        : fmt::format("its source {} cannot be read whole: {}", printable(source), reason);
}

std::string unreadable_parts(hid_t creation, std::int64_t all_elements, const Doing& doing) {
  std::size_t count = 0;
  check(H5Pget_virtual_count(creation, &count), doing);
  std::int64_t elements = 0;
  for (std::size_t part = 0; part < count; ++part)
    if (const std::string reason = unreadable_part(creation, part, elements, doing); !reason.empty())
      return "it is virtual, and " + reason;
  return elements >= all_elements ? ""
                                  : fmt::format("it is virtual, and only {} of its {} elements have a source",
                                                elements, all_elements);
}

std::string external_storage(hid_t creation, const Doing& doing) {
  if (check(H5Pget_external_count(creation), doing) == 0) return "";
  std::array<char, 256> name{};
  off_t offset = 0;
  hsize_t size = 0;
  check(H5Pget_external(creation, 0, name.size() - 1, name.data(), &offset, &size), doing);
  return fmt::format(
      "its data lies in other files, the first of them {}, which are not opened; copy it with h5repack",
      printable(name.data()));
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

bool Dataset::is_enumeration() const {
  return class_of(handle_.id(), {ExitCode::kBadData, "read the type of", name_, file_}) == H5T_ENUM;
}

bool Dataset::is_virtual() const {
  const Doing doing{ExitCode::kBadData, "examine", name_, file_};
  const Handle creation = own<H5Pclose>(H5Dget_create_plist(handle_.id()), doing);
  return check(H5Pget_layout(creation.id()), doing) == H5D_VIRTUAL;
}

std::string Dataset::unreadable_reason() const {
  const Doing doing{ExitCode::kBadData, "examine", name_, file_};
  const std::optional<std::int64_t> elements = try_count(shape());
  if (!elements)
    return fmt::format("its shape {} has more elements than can be counted", shape_text(shape()));
  if (*elements == 0) return "";
  const Handle creation = own<H5Pclose>(H5Dget_create_plist(handle_.id()), doing);
  switch (check(H5Pget_layout(creation.id()), doing)) {
    case H5D_CHUNKED:
      if (std::string chunks = too_large_chunks(handle_.id(), creation.id(), doing); !chunks.empty())
        return chunks;
      return missing_chunks(handle_.id(), creation.id(), shape(), doing);
    case H5D_VIRTUAL:
      return unreadable_parts(creation.id(), *elements, doing);
    default:
      break;
  }
  if (std::string other_files = external_storage(creation.id(), doing); !other_files.empty())
    return other_files;
  H5D_space_status_t status = H5D_SPACE_STATUS_ALLOCATED;
  check(H5Dget_space_status(handle_.id(), &status), doing);
  return status == H5D_SPACE_STATUS_ALLOCATED
             ? ""
             : "nothing was ever written to it; was the program that writes it stopped too early?";
}

template <Element T>
void Dataset::read(const Hyperslab& box, std::span<T> out) const {
  SLUICE_ASSERT(std::ssize(out) == element_count(box.count), "{} places do not fit a box of {} elements",
                out.size(), shape_text(box.count));
  if (out.empty()) return;
  const Doing doing{ExitCode::kBadData, "read", name_, file_};
  const Selection selection = select(handle_.id(), box, doing);
  check(H5Dread(handle_.id(), memory_type<T>(), selection.memory.id(), selection.file.id(), H5P_DEFAULT,
                out.data()),
        doing);
}

template <Element T>
std::vector<T> Dataset::read() const {
  const Hyperslab box = whole(shape());
  std::vector<T> out(checked_cast<std::size_t>(element_count(box.count)));
  read<T>(box, out);
  return out;
}

template <Element T>
void Dataset::write(const Hyperslab& box, std::span<const T> data) {
  SLUICE_ASSERT(std::ssize(data) == element_count(box.count), "{} values do not fit a box of {} elements",
                data.size(), shape_text(box.count));
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
  SLUICE_ASSERT(!sizes.empty(), "{} is a scalar, expected a dataset with rows", name_);
  sizes[0] = checked_cast<hsize_t>(rows);
  check(H5Dset_extent(handle_.id(), sizes.data()), {ExitCode::kIo, "extend", name_, file_});
}

#define SLUICE_INSTANTIATE(T)                                            \
  template void Dataset::read<T>(const Hyperslab&, std::span<T>) const;  \
  template std::vector<T> Dataset::read<T>() const;                      \
  template void Dataset::write<T>(const Hyperslab&, std::span<const T>); \
  template void Dataset::write<T>(std::span<const T>);
SLUICE_INSTANTIATE(std::int32_t)
SLUICE_INSTANTIATE(std::int64_t)
SLUICE_INSTANTIATE(float)
SLUICE_INSTANTIATE(double)
#undef SLUICE_INSTANTIATE

}  // namespace sluice::hdf5
