#include "report/trace/trace_events.hpp"

#include "report/output_text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

namespace sluice {
namespace {

using nlohmann::json;

/// An event as a line of JSON, with its place in the order of all events.
struct Event {
  std::int64_t time_ns = 0;
  std::int64_t duration_ns = 0;  ///< duration; of events that begin together the longest comes first
  std::string text;
};

constexpr int kComputeThread = 0, kPhasesThread = 1, kFirstOtherThread = 2;

int thread_of(const TraceRecord& record) {
  if (record.kind == trace::Kind::kPhase) return kPhasesThread;
  return record.thread == 0 ? kComputeThread : record.thread - 1 + kFirstOtherThread;
}

/// Microseconds, the unit of the format, with three decimals.
std::string microseconds(std::int64_t nanoseconds) {
  return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
}

std::string arguments_of(const TraceRecord& record) {
  json arguments = json::object();
  if (record.number >= 0) arguments["number"] = record.number;
  if (record.bytes >= 0) arguments["bytes"] = record.bytes;
  if (record.matrix.rows > 0) arguments["matrix"] = {record.matrix.rows, record.matrix.columns};
  return arguments.dump();
}

/// Members that all events of a record share, without the braces.
std::string common_part(const TraceRecord& record, int rank, std::int64_t time_ns) {
  return fmt::format(R"("name":{},"cat":"{}","pid":{},"tid":{},"ts":{},"args":{})", json(record.name).dump(),
                     name_of(record.kind), rank, thread_of(record), microseconds(time_ns),
                     arguments_of(record));
}

class EventList {
 public:
  explicit EventList(std::int64_t zero_ns) : zero_ns_(zero_ns) {}

  void add(const TraceFile& rank) {
    name(rank.header.rank, "process_name", 0,
         fmt::format("rank {} on {}", rank.header.rank, rank.header.host));
    name(rank.header.rank, "thread_name", kComputeThread, "computes");
    name(rank.header.rank, "thread_name", kPhasesThread, "phases");
    int threads = 0;
    for (const TraceRecord& record : rank.records) {
      add(record, rank.header);
      threads = std::max(threads, record.thread);
    }
    for (int thread = 1; thread <= threads; ++thread)
      name(rank.header.rank, "thread_name", thread - 1 + kFirstOtherThread, fmt::format("disk {}", thread));
  }

  [[nodiscard]] std::vector<Event> sorted() {
    std::ranges::stable_sort(events_, {},
                             [](const Event& event) { return std::pair(event.time_ns, -event.duration_ns); });
    return std::move(events_);
  }

 private:
  void name(int rank, const char* what, int thread, const std::string& text) {
    events_.push_back(
        {std::numeric_limits<std::int64_t>::min(), 0,
         fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})", what, rank, thread,
                     json(text).dump(-1, ' ', false, json::error_handler_t::replace))});
  }

  void add(const TraceRecord& record, const TraceHeader& header) {
    const std::int64_t begin = header.begin_ns + record.begin_ns - zero_ns_,
                       duration = record.end_ns - record.begin_ns;
    if (record.kind == trace::Kind::kMessage) {
      const std::string id = fmt::format("{}.{}", header.rank, ++messages_);
      events_.push_back(
          {begin, duration,
           fmt::format(R"({{"ph":"b","id":"{}",{}}})", id, common_part(record, header.rank, begin))});
      events_.push_back({begin + duration, 0,
                         fmt::format(R"({{"ph":"e","id":"{}",{}}})", id,
                                     common_part(record, header.rank, begin + duration))});
    } else {
      events_.push_back({begin, duration,
                         fmt::format(R"({{"ph":"X","dur":{},{}}})", microseconds(duration),
                                     common_part(record, header.rank, begin))});
    }
  }

  std::int64_t zero_ns_;
  std::int64_t messages_ = 0;  ///< number of message events so far, which numbers them
  std::vector<Event> events_;
};

std::int64_t earliest(const std::vector<TraceFile>& ranks) {
  std::int64_t earliest = std::numeric_limits<std::int64_t>::max();
  for (const TraceFile& rank : ranks)
    for (const TraceRecord& record : rank.records)
      earliest = std::min(earliest, rank.header.begin_ns + record.begin_ns);
  return earliest;
}

}  // namespace

TraceTotals write_trace_events(const std::vector<TraceFile>& ranks, const std::filesystem::path& output) {
  EventList list(earliest(ranks));
  for (const TraceFile& rank : ranks) list.add(rank);
  const std::vector<Event> events = list.sorted();
  OutputText text(output);
  TraceTotals totals;
  const auto write = [&](const std::string& part) {
    text.write(part);
    totals.bytes += std::ssize(part);
  };
  write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  for (const Event& event : events) write((totals.events++ == 0 ? "" : ",\n") + event.text);
  write("\n]}\n");
  text.close();
  return totals;
}

}  // namespace sluice
