#include "metrics/trace/trace_file.hpp"

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "io/file.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

namespace sluice {
namespace {

using nlohmann::json;

constexpr std::int64_t kFormat = 1;
constexpr std::array<const char*, 7> kKinds{"step", "pass", "operation", "wait", "phase", "disk", "message"};

std::string header_line(const TraceHeader& header) {
  return json{{"format", kFormat},
              {"rank", header.rank},
              {"ranks", header.ranks},
              {"host", header.host},
              {"first_step", header.first_step},
              {"last_step", header.last_step},
              {"begin_ns", header.begin_ns},
              {"round_trip_ns", header.round_trip_ns},
              {"dropped", header.dropped}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

TraceHeader header_of(const json& line) {
  if (line.at("format").get<std::int64_t>() != kFormat) throw std::out_of_range("another format");
  return {.rank = line.at("rank"),
          .ranks = line.at("ranks"),
          .host = line.at("host"),
          .first_step = line.at("first_step"),
          .last_step = line.at("last_step"),
          .begin_ns = line.at("begin_ns"),
          .round_trip_ns = line.at("round_trip_ns"),
          .dropped = line.at("dropped")};
}

TraceRecord record_of(const json& line) {
  const auto kind = std::ranges::find(kKinds, line.at(0).get<std::string_view>());
  if (kind == kKinds.end()) throw std::out_of_range("an unknown kind");
  return {.kind = static_cast<trace::Kind>(kind - kKinds.begin()),
          .thread = line.at(1),
          .name = line.at(2),
          .begin_ns = line.at(3),
          .end_ns = line.at(4),
          .number = line.at(5),
          .bytes = line.at(6),
          .matrix = line.size() > 7 ? trace::MatrixSize{line.at(7), line.at(8)} : trace::MatrixSize()};
}

/// The end of a product's line; nothing for other operations.
std::string matrix_text(const trace::MatrixSize& matrix) {
  return matrix.rows == 0 ? "" : fmt::format(",{},{}", matrix.rows, matrix.columns);
}

/// Calls take(line, number of the line, from 1) for each line of a text.
template <class Take>
void for_each_line(std::string_view text, Take take) {
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    take(text.substr(0, end), number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

const char* name_of(trace::Kind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

std::filesystem::path trace_file_path(const std::filesystem::path& run, int rank) {
  return run / "trace" / fmt::format("rank-{:05}.jsonl", rank);
}

std::int64_t write_trace_file(const std::filesystem::path& file, const TraceHeader& header,
                              const trace::Recording& recording) {
  std::string text = header_line(header) + "\n";
  for (const trace::Record& record : recording.records)
    fmt::format_to(std::back_inserter(text), "[\"{}\",{},\"{}\",{},{},{},{}{}]\n", name_of(record.kind),
                   record.thread, record.name, nanoseconds_of(record.begin - recording.begin),
                   nanoseconds_of(record.end - recording.begin), record.number, record.bytes,
                   matrix_text(record.matrix));
  write_text_file(file, text, Durability::kKernel);
  return std::ssize(text);
}

TraceFile read_trace_file(const std::filesystem::path& file) {
  const std::string text = read_text_file(file, kGiB);
  TraceFile trace;
  for_each_line(text, [&](std::string_view line, std::int64_t number) {
    try {
      const json parsed = json::parse(line);
      if (number == 1)
        trace.header = header_of(parsed);
      else
        trace.records.push_back(record_of(parsed));
    } catch (const std::exception& error) {
      fail({ExitCode::kBadData, "metrics.file"},
           "{}, line {}: this is not a line of a trace that this version writes: {}", file.string(), number,
           error.what());
    }
  });
  if (text.empty()) fail({ExitCode::kBadData, "metrics.file"}, "{}: this trace is empty", file.string());
  return trace;
}

}  // namespace sluice
