#include "corpus/source/source_file.hpp"

#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>
#include <thread>

namespace sluice::corpus {
namespace {

using test::expect_error;
using test::TemporaryDirectory;

std::string all_of(SourceFile file) {
  std::string text(1000, '\0');
  text.resize(file.read(std::as_writable_bytes(std::span(text)), [] { return false; }));
  return text;
}

TEST(SourceFile, is_read_from_front_to_back) {
  const TemporaryDirectory directory;
  SourceFile file = SourceFile::open(directory.write("a", "whale"));
  EXPECT_EQ(file.size_bytes(), 5);
  std::array<std::byte, 3> bytes{};
  const auto never = [] { return false; };
  EXPECT_EQ(file.read(bytes, never), 3U);
  EXPECT_EQ(file.read(bytes, never), 2U);
  EXPECT_EQ(file.read(bytes, never), 0U);
}

TEST(SourceFile, may_be_a_pipe_of_this_process_or_one_with_a_name) {
  const TemporaryDirectory directory;
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ASSERT_EQ(::write(ends[1], "whale", 5), 5);
  ::close(ends[1]);  // nobody writes any more
  const std::string name = "/dev/fd/" + std::to_string(ends[0]);
  EXPECT_TRUE(is_stream(name));
  EXPECT_EQ(all_of(SourceFile::open(name)), "whale");
  ::close(ends[0]);

  const auto fifo = directory / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  SourceFile file = SourceFile::open(fifo);  // nobody writes yet
  std::thread writer([&] { std::ofstream(fifo) << "ship"; });
  EXPECT_EQ(all_of(std::move(file)), "ship");
  writer.join();
}

TEST(SourceFile, is_refused_where_it_has_to_stay_or_is_no_file) {
  const TemporaryDirectory directory;
  expect_error(ExitCode::kBadData, {"--prompts: /dev/null", "once", "do this"},
               [] { require_no_stream("/dev/null", "--prompts: ", "do this"); });
  require_no_stream(directory.write("a", ""), "", "");
  expect_error(ExitCode::kBadData, {"a directory"},
               [&] { static_cast<void>(SourceFile::open(directory.path())); });
  expect_error(ExitCode::kBadData, {"none.txt"}, [] { static_cast<void>(SourceFile::open("none.txt")); });
}

}  // namespace
}  // namespace sluice::corpus
