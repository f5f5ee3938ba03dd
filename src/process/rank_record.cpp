#include "process/rank_record.hpp"

#include "base/log.hpp"
#include "process/console.hpp"
#include "process/host_name.hpp"
#include "process/launch_mark.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstdlib>

namespace sluice {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(RankRecord, rank, code, host, report, saved_step, id)

namespace {

using Json = nlohmann::json;

/// First character of a record: ASCII's record separator, as in RFC 7464.
constexpr char kBegin = '\x1e';

void write_record(const RankRecord& record) {
  const std::string line = kBegin + Json(record).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

bool is_launched_on_hosts() { return std::getenv(kLaunchVariable) != nullptr; }

void announce_rank(int rank) {
  if (is_launched_on_hosts()) write_record({.rank = rank, .host = host_name()});
}

void announce_saved_step(int rank, std::int64_t step) {
  if (is_launched_on_hosts()) write_record({.rank = rank, .host = host_name(), .saved_step = step});
}

std::string failed_rank_text(int rank, int ranks, int code, std::string_view reason) {
  return fmt::format("sluice: rank {} of {} failed, so the job ends with exit code {}:\n  {}", rank, ranks,
                     code, reason);
}

void report_ending(int rank, const Cause& cause, std::string_view report) {
  if (!is_launched_on_hosts()) return console::report(report);
  write_record({.rank = rank,
                .code = static_cast<int>(cause.code),
                .host = host_name(),
                .report = std::string(report),
                .id = std::string(cause.id.text())});
  log::record(log::Level::kError, report);
}

std::optional<RankRecord> parse_rank_record(std::string_view line) {
  if (line.empty() || line.front() != kBegin) return std::nullopt;
  const Json json = Json::parse(line.substr(1), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  return json.get<RankRecord>();
}

}  // namespace sluice
