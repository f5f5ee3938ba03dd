#include "base/trace/recorder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace sluice {
namespace {

using testing::ElementsAre;

std::vector<std::string> names_of(const trace::Recording& recording) {
  std::vector<std::string> names;
  for (const trace::Record& record : recording.records) names.emplace_back(record.name);
  return names;
}

void do_something(const char* name) { const trace::Span span(trace::Kind::kOperation, name, 7, 9); }

TEST(TraceRecorder, records_what_begins_and_ends_while_it_is_on) {
  do_something("before");
  {
    const trace::Span begins_before(trace::Kind::kOperation, "begins before");
    trace::start();
  }
  {
    const trace::Span outer(trace::Kind::kStep, "outer");
    do_something("inner");
  }
  const trace::Recording recording = trace::stop();
  do_something("after");
  ASSERT_THAT(names_of(recording), ElementsAre("inner", "outer"));
  const trace::Record inner = recording.records[0], outer = recording.records[1];
  EXPECT_LE(recording.begin, outer.begin);
  EXPECT_LE(outer.begin, inner.begin);
  EXPECT_LE(inner.begin, inner.end);
  EXPECT_LE(inner.end, outer.end);
  EXPECT_EQ(inner.number, 7);
  EXPECT_EQ(inner.bytes, 9);
  EXPECT_EQ(outer.number, -1);
  EXPECT_FALSE(trace::is_on());
}

TEST(TraceRecorder, begins_with_nothing_from_before) {
  trace::start();
  do_something("first");
  EXPECT_THAT(names_of(trace::stop()), ElementsAre("first"));
  trace::start();
  EXPECT_THAT(names_of(trace::stop()), ElementsAre());
}

TEST(TraceRecorder, numbers_threads_in_the_order_in_which_they_record) {
  for (int recording = 0; recording < 2; ++recording) {
    trace::start();
    std::thread([] { do_something("other"); }).join();
    do_something("own");
    std::thread([] { do_something("third"); }).join();
    const std::vector<trace::Record> records = trace::stop().records;
    ASSERT_EQ(records.size(), 3U);
    EXPECT_EQ(records[0].thread, 1);
    EXPECT_EQ(records[1].thread, 0);
    EXPECT_EQ(records[2].thread, 2);
  }
}

TEST(TraceRecorder, lets_an_interval_that_began_earlier_begin_with_the_recording) {
  const SteadyClock::time_point before = SteadyClock::now();
  trace::start();
  trace::add(trace::Kind::kPhase, "phase", before, SteadyClock::now());
  trace::add(trace::Kind::kPhase, "over", before, before);
  const trace::Recording recording = trace::stop();
  ASSERT_THAT(names_of(recording), ElementsAre("phase"));
  EXPECT_EQ(recording.records[0].begin, recording.begin);
}

TEST(TraceRecorder, counts_what_finds_no_room) {
  trace::start();
  for (std::int64_t i = 0; i < trace::kMostRecords + 3; ++i) do_something("one");
  const trace::Recording recording = trace::stop();
  EXPECT_EQ(std::ssize(recording.records), trace::kMostRecords);
  EXPECT_EQ(recording.dropped, 3);
}

}  // namespace
}  // namespace sluice
