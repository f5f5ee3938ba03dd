#include "io/hdf5.hpp"

#include "support/expect_error.hpp"
#include "support/source_folder.hpp"
#include "support/temporary_directory.hpp"

#include <hdf5.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>

namespace sluice::hdf5 {
namespace {

using test::expect_error;
using test::TemporaryDirectory;

template <class T>
std::span<const T> constant(const std::vector<T>& values) {
  return values;
}

TEST(Hdf5File, keeps_numbers_of_every_shape) {
  const TemporaryDirectory directory;
  File out = File::create(directory / "a.h5");
  out.create_dataset("/scalar", DType::kFloat64, {}).write(constant<double>({2.5}));
  out.create_dataset("/deep/in/matrix", DType::kInt32, {2, 3})
      .write(constant<std::int64_t>({1, 2, 3, 4, 5, 6}));
  out.create_dataset("/empty", DType::kFloat32, {0}).write(constant<float>({}));
  out.close();

  const File file = File::open(directory / "a.h5");
  EXPECT_EQ(file.dataset("/scalar").read<double>(), std::vector{2.5});
  EXPECT_TRUE(file.dataset("/scalar").shape().empty());
  const Dataset matrix = file.dataset("/deep/in/matrix");
  EXPECT_EQ(matrix.shape(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(matrix.read<std::int32_t>(), (std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(file.dataset("/empty").read<float>().empty());
}

TEST(Hdf5File, lists_and_finds_its_objects) {
  const TemporaryDirectory directory;
  File file = File::create(directory / "a.h5");
  file.create_dataset("/b/x", DType::kFloat32, {1});
  file.create_group("/a/c");
  EXPECT_EQ(file.children("/"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(file.children("/b"), std::vector<std::string>{"x"});
  EXPECT_TRUE(file.children("/a/c").empty());
  EXPECT_TRUE(file.exists("/"));
  EXPECT_TRUE(file.exists("/b/x"));
  EXPECT_FALSE(file.exists("/b/y"));
  EXPECT_FALSE(file.exists("/no/such/path"));
}

TEST(Hdf5File, keeps_attributes) {
  const TemporaryDirectory directory;
  const std::string long_text(100'000, 'x');  // an attribute holds 64 KiB in place
  File out = File::create(directory / "a.h5");
  out.create_dataset("/d", DType::kFloat32, {1});
  out.set_attribute("/", "text", "caf\xc3\xa9");
  out.set_attribute("/", "empty", "");
  out.set_attribute("/", "long", long_text);
  out.set_attribute("/d", "count", std::int64_t{-7});
  out.set_attribute("/d", "sizes", constant<std::int64_t>({1, 2, 3}));
  out.set_attribute("/d", "betas", constant<double>({0.9, 0.95}));
  out.close();

  const File file = File::open(directory / "a.h5");
  EXPECT_EQ(file.text_attribute("/", "text"), "caf\xc3\xa9");
  EXPECT_EQ(file.text_attribute("/", "empty"), "");
  EXPECT_EQ(file.text_attribute("/", "long"), long_text);
  EXPECT_EQ(file.attribute<std::int64_t>("/d", "count"), std::vector<std::int64_t>{-7});
  EXPECT_EQ(file.attribute<std::int64_t>("/d", "sizes"), (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(file.attribute<double>("/d", "betas"), (std::vector<double>{0.9, 0.95}));
  expect_error(ExitCode::kBadData, {"a.h5", "/d@nope", "HDF5 says"},
               [&] { static_cast<void>(file.text_attribute("/d", "nope")); });
}

TEST(Hdf5File, refuses_what_cannot_be_opened) {
  const TemporaryDirectory directory;
  expect_error(ExitCode::kBadData, {"none.h5", "No such file"}, [&] { File::open(directory / "none.h5"); });
  const std::filesystem::path text = directory.write("text.h5", "this is no HDF5");
  expect_error(ExitCode::kBadData, {"cannot open", "text.h5", "signature"}, [&] { File::open(text); });
}

TEST(Hdf5File, refuses_a_file_that_is_cut_short) {
  const TemporaryDirectory directory;
  File out = File::create(directory / "a.h5");
  out.create_dataset("/d", DType::kFloat64, {1000}).write(constant(std::vector<double>(1000, 1.0)));
  out.close();
  std::filesystem::resize_file(directory / "a.h5", 4000);
  expect_error(ExitCode::kBadData, {"a.h5", "truncated"}, [&] { File::open(directory / "a.h5"); });
}

TEST(Hdf5File, is_created_new_or_not_at_all) {
  const TemporaryDirectory directory;
  const std::filesystem::path old = directory.write("old.h5", "precious");
  expect_error(ExitCode::kIo, {"old.h5", "exists already"}, [&] { File::create(old); });
  EXPECT_EQ(std::filesystem::file_size(old), 8u);
  expect_error(ExitCode::kIo, {"no directory", "missing"}, [&] { File::create(directory / "missing/a.h5"); });
}

TEST(Hdf5File, has_the_oldest_superblock_and_no_lock) {
  const TemporaryDirectory directory;
  File out = File::create(directory / "a.h5");
  out.flush();
  std::ifstream bytes(directory / "a.h5", std::ios::binary);
  const std::string start(std::istreambuf_iterator<char>(bytes), {});
  EXPECT_EQ(start.substr(0, 4), "\x89HDF");
  EXPECT_EQ(start[8], 0) << "superblock version";
  EXPECT_TRUE(File::open(directory / "a.h5").children("/").empty()) << "opened while it is written";
}

TEST(Hdf5Dataset, reads_and_writes_boxes) {
  const TemporaryDirectory directory;
  File file = File::create(directory / "a.h5");
  Dataset dataset = file.create_dataset("/d", DType::kFloat32, {3, 4});
  dataset.write(constant(std::vector<float>(12, 0.0f)));
  dataset.write({{1, 2}, {2, 2}}, constant<float>({1, 2, 3, 4}));
  std::vector<double> out(6);
  dataset.read<double>({{1, 1}, {2, 3}}, out);
  EXPECT_EQ(out, (std::vector<double>{0, 1, 2, 0, 3, 4}));
  expect_error(ExitCode::kBadData, {"cannot read /d of", "a.h5"}, [&] {
    dataset.read<double>({{2, 2}, {2, 3}}, out);
  });
  expect_error(ExitCode::kInternal, {"6 places"}, [&] { dataset.read<double>({{0, 0}, {1, 1}}, out); });
}

TEST(Hdf5Dataset, grows_by_rows) {
  const TemporaryDirectory directory;
  File file = File::create(directory / "a.h5");
  Dataset dataset = file.create_dataset("/d", DType::kInt64, {0, 2}, {.block_rows = 2});
  for (std::int64_t row = 0; row < 5; ++row) {
    dataset.set_rows(row + 1);
    dataset.write({{row, 0}, {1, 2}}, constant<std::int64_t>({row, -row}));
  }
  EXPECT_EQ(dataset.read<std::int64_t>(), (std::vector<std::int64_t>{0, 0, 1, -1, 2, -2, 3, -3, 4, -4}));
}

/// Writes the numbers from 0 on, compressed in one chunk.
void write_compressed(const std::filesystem::path& path, hsize_t count) {
  std::vector<std::int32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(1, &count, nullptr), properties = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(properties, 1, &count);
  H5Pset_deflate(properties, 1);
  const hid_t dataset =
      H5Dcreate2(file, "tokens", H5T_NATIVE_INT32, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  EXPECT_GE(H5Dwrite(dataset, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()), 0);
  for (const auto close : {H5Dclose(dataset), H5Pclose(properties), H5Sclose(space), H5Fclose(file)})
    EXPECT_GE(close, 0);
}

/// That this process has read so far, from files and otherwise.
std::int64_t bytes_read() {
  std::ifstream in("/proc/self/io");
  std::string name;
  std::int64_t bytes = 0;
  in >> name >> bytes;
  EXPECT_EQ(name, "rchar:");
  return bytes;
}

TEST(Hdf5Dataset, a_large_compressed_chunk_is_read_once_for_all_its_rows) {
  const TemporaryDirectory directory;
  constexpr std::int64_t kCount = 1 << 20, kPart = kCount / 64;
  write_compressed(directory / "a.h5", kCount);
  const auto file_bytes = static_cast<std::int64_t>(std::filesystem::file_size(directory / "a.h5"));
  const File file = File::open(directory / "a.h5");
  const Dataset tokens = file.dataset("/tokens");
  const std::int64_t before = bytes_read();
  std::vector<std::int32_t> part(kPart);
  for (std::int64_t begin = 0; begin < kCount; begin += kPart) {
    tokens.read<std::int32_t>({{begin}, {kPart}}, part);
    EXPECT_EQ(part.back(), begin + kPart - 1);
  }
  EXPECT_LT(bytes_read() - before, 2 * file_bytes);
}

TEST(Hdf5Dataset, knows_its_kind) {
  const TemporaryDirectory directory;
  File file = File::create(directory / "a.h5");
  EXPECT_TRUE(file.create_dataset("/i", DType::kUInt16, {1}).is_integer());
  EXPECT_FALSE(file.create_dataset("/f", DType::kFloat32, {1}).is_integer());
  EXPECT_TRUE(file.dataset("/f").is_floating());
  expect_error(ExitCode::kInternal, {"bfloat16"}, [&] { file.create_dataset("/b", DType::kBFloat16, {1}); });
}

TEST(Hdf5Dataset, that_is_missing_is_named) {
  const TemporaryDirectory directory;
  File file = File::create(directory / "a.h5");
  file.create_group("/g");
  expect_error(ExitCode::kBadData, {"a.h5 has no dataset /x"},
               [&] { static_cast<void>(file.dataset("/x")); });
  expect_error(ExitCode::kBadData, {"the dataset /g", "a.h5", "HDF5 says"},
               [&] { static_cast<void>(file.dataset("/g")); });
}

TEST(Hdf5Fixture, opens_what_h5py_wrote) {
  const File file = File::open(fixture_folder() / "moby-dick.tokens.h5");
  EXPECT_TRUE(file.dataset("/tokens").is_integer());
}

}  // namespace
}  // namespace sluice::hdf5
