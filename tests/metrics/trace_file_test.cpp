#include "metrics/trace/trace_file.hpp"

#include "base/error.hpp"
#include "io/file.hpp"
#include "support/temporary_directory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

using test::TemporaryDirectory;
using testing::HasSubstr;

trace::Recording some_recording() {
  trace::start();
  {
    const trace::Span step(trace::Kind::kStep, "step", 3);
    const trace::Span wait(trace::Kind::kWait, "all_gather", 17);
    const trace::Span product(trace::Kind::kOperation, "linear", {128, 64});
  }
  return trace::stop();
}

TEST(TraceFile, brings_back_what_was_recorded) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "rank-00002.jsonl";
  const TraceHeader header{.rank = 2,
                           .ranks = 3,
                           .host = "a \"host\"",
                           .first_step = 3,
                           .last_step = 5,
                           .begin_ns = -8,
                           .round_trip_ns = 40,
                           .dropped = 1};
  const trace::Recording recording = some_recording();
  const std::int64_t bytes = write_trace_file(file, header, recording);
  EXPECT_EQ(bytes, static_cast<std::int64_t>(std::filesystem::file_size(file)));
  const TraceFile read = read_trace_file(file);
  EXPECT_EQ(read.header.rank, 2);
  EXPECT_EQ(read.header.host, "a \"host\"");
  EXPECT_EQ(read.header.begin_ns, -8);
  EXPECT_EQ(read.header.dropped, 1);
  ASSERT_EQ(read.records.size(), 3U);
  const TraceRecord &product = read.records[0], &wait = read.records[1], &step = read.records[2];
  EXPECT_EQ(product.matrix.rows, 128);
  EXPECT_EQ(product.matrix.columns, 64);
  EXPECT_EQ(wait.name, "all_gather");
  EXPECT_EQ(wait.kind, trace::Kind::kWait);
  EXPECT_EQ(wait.number, 17);
  EXPECT_EQ(wait.matrix.rows, 0);
  EXPECT_EQ(step.kind, trace::Kind::kStep);
  EXPECT_LE(step.begin_ns, wait.begin_ns);
  EXPECT_LE(wait.end_ns, step.end_ns);
}

TEST(TraceFile, names_the_line_that_is_none_of_a_trace) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "rank-00000.jsonl";
  write_trace_file(file, {}, some_recording());
  const std::string whole = read_text_file(file, 1 << 20);
  for (const std::string& bad :
       {std::string("["), std::string(R"(["step",0,"a",1])"), std::string(R"(["sleep",0,"a",1,2,-1,-1])")}) {
    write_text_file(file, whole + bad + "\n");
    try {
      static_cast<void>(read_trace_file(file));
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadData);
      EXPECT_THAT(error.what(), HasSubstr("rank-00000.jsonl, line 5"));
    }
  }
  write_text_file(file, "");
  EXPECT_THROW(static_cast<void>(read_trace_file(file)), Error);
}

}  // namespace
}  // namespace sluice
