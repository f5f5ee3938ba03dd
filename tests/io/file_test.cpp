#include "io/file.hpp"

#include "base/bytes.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice {
namespace {

using test::expect_error;
using test::TemporaryDirectory;

std::string read(const InputFile& file, std::int64_t offset, std::size_t bytes) {
  std::string text(bytes, '\0');
  file.read_at(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

TEST(InputFile, reads_at_any_position) {
  const TemporaryDirectory directory;
  const InputFile file = InputFile::open(directory.write("a", "0123456789"));
  EXPECT_EQ(file.size_bytes(), 10);
  EXPECT_EQ(read(file, 0, 10), "0123456789");
  EXPECT_EQ(read(file, 7, 3), "789");
  EXPECT_EQ(read(file, 10, 0), "");
}

TEST(InputFile, hints_leave_the_content_alone) {
  const TemporaryDirectory directory;
  const InputFile file = InputFile::open(directory.write("a", "0123456789"));
  file.advise_sequential();
  file.drop_cache(0, 10);
  file.drop_cache(5, 0);
  EXPECT_EQ(read(file, 0, 10), "0123456789");
}

TEST(InputFile, follows_links) {
  const TemporaryDirectory directory;
  std::filesystem::create_symlink(directory.write("blob", "weights"), directory / "link");
  EXPECT_EQ(read(InputFile::open(directory / "link"), 0, 7), "weights");
}

TEST(InputFile, says_that_a_file_is_missing) {
  const TemporaryDirectory directory;
  expect_error(ExitCode::kBadData, {"nothing", "No such file"},
               [&] { InputFile::open(directory / "nothing"); });
}

TEST(InputFile, refuses_what_is_no_regular_file_without_blocking) {
  const TemporaryDirectory directory;
  ASSERT_EQ(::mkfifo((directory / "fifo").c_str(), 0600), 0);
  expect_error(ExitCode::kBadData, {"fifo is a FIFO"}, [&] { InputFile::open(directory / "fifo"); });
  expect_error(ExitCode::kBadData, {"is a directory"}, [&] { InputFile::open(directory / "."); });
  expect_error(ExitCode::kBadData, {"/dev/zero is a device"}, [] { InputFile::open("/dev/zero"); });
}

TEST(InputFile, says_that_a_file_shrank) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.write("a", "0123456789");
  const InputFile file = InputFile::open(path);
  std::filesystem::resize_file(path, 4);
  expect_error(ExitCode::kBadData, {"ends at offset 4", "had 10 bytes"}, [&] { read(file, 0, 10); });
}

TEST(OutputFile, writes_by_position_and_leaves_holes_of_zeros) {
  const TemporaryDirectory directory;
  OutputFile out = OutputFile::create(directory / "a");
  out.resize(8);
  out.write_at(2, std::as_bytes(std::span("xy", 2)));
  out.close();
  EXPECT_EQ(read(InputFile::open(directory / "a"), 0, 8), std::string("\0\0xy\0\0\0\0", 8));
}

TEST(OutputFile, is_written_past_the_page_cache_or_not_made) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "a";
  std::optional<OutputFile> out = OutputFile::create_direct(path);
  EXPECT_EQ(std::filesystem::exists(path), out.has_value());
  if (!out) out = OutputFile::create(path);
  alignas(InputFile::kBlockBytes) std::array<char, 2 * InputFile::kBlockBytes> blocks;
  blocks.fill('x');
  out->write_at(0, std::as_bytes(std::span(blocks)));
  out->resize(5000);
  out->close();
  EXPECT_EQ(read(InputFile::open(path), 0, 5000), std::string(5000, 'x'));
}

TEST(OutputFile, takes_offsets_beyond_4_gib) {
  const TemporaryDirectory directory;
  OutputFile out = OutputFile::create(directory / "a");
  out.write_at(5 * kGiB, std::as_bytes(std::span("end", 3)));
  out.close();
  EXPECT_EQ(read(InputFile::open(directory / "a"), 5 * kGiB, 3), "end");
}

TEST(OutputFile, refuses_an_existing_file) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.write("a", "old");
  expect_error(ExitCode::kIo, {"cannot create", "File exists"}, [&] { OutputFile::create(path); });
  EXPECT_EQ(read_text_file(path, 10), "old");
}

TEST(OutputFile, writes_back_into_a_file_that_another_has_created) {
  const TemporaryDirectory directory;
  OutputFile::create(directory / "a").resize(6);
  OutputFile out = OutputFile::open(directory / "a");
  out.write_at(2, std::as_bytes(std::span("xyz", 3)));
  out.start_writeback(0, 6);
  out.drop_written(0, 6);
  out.drop_written(0, 0);
  out.close();
  EXPECT_EQ(read_text_file(directory / "a", 100), std::string("\0\0xyz\0", 6));
  expect_error(ExitCode::kIo, {"cannot open", "absent"}, [&] { OutputFile::open(directory / "absent"); });
}

TEST(OutputFile, reports_a_full_disk) {
  const TemporaryDirectory directory;
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4, old.rlim_max};
  OutputFile out = OutputFile::create(directory / "a");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  expect_error(ExitCode::kIo, {"cannot write", "offset 4"},
               [&] { out.write_at(0, std::as_bytes(std::span("123456", 6))); });
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, old_handler);
}

TEST(TextFile, is_refused_when_too_long) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.write("a", "12345");
  EXPECT_EQ(read_text_file(path, 5), "12345");
  expect_error(ExitCode::kBadData, {"has 5 bytes", "4"}, [&] { static_cast<void>(read_text_file(path, 4)); });
}

TEST(TextFile, is_replaced_as_a_whole_and_leaves_nothing_beside_it) {
  const TemporaryDirectory directory;
  write_text_file(directory / "status", "first");
  write_text_file(directory / "status", "second");
  EXPECT_EQ(read_text_file(directory / "status", 100), "second");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory / ""), {}), 1);
}

TEST(TextFile, keeps_the_old_content_when_it_cannot_be_written) {
  const TemporaryDirectory directory;
  expect_error(ExitCode::kIo, {"cannot create"}, [&] { write_text_file(directory / "missing/status", "x"); });
  std::filesystem::create_directory(directory / "status");
  expect_error(ExitCode::kIo, {"cannot rename"}, [&] { write_text_file(directory / "status", "x"); });
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory / ""), {}), 1);
}

}  // namespace
}  // namespace sluice
