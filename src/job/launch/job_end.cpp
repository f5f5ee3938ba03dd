#include "job/launch/job_end.hpp"

#include "base/error.hpp"
#include "comm/outcome.hpp"
#include "job/commands/run_files.hpp"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <string>
#include <string_view>

namespace sluice {
namespace {

std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

std::string lost_text(const LostHost& host) {
  const std::string seconds = fmt::format("{:.0f} s ago", host.silent_seconds);
  const std::string who =
      host.ranks.empty() ? host.name : fmt::format("{} ({})", host.name, ranks_text(host.ranks));
  if (host.is_disconnected)
    return fmt::format("{} has closed its connections {}: all processes there have ended, or the machine has",
                       who, seconds);
  return fmt::format("{} was last heard {}: its link is cut, or the machine is down", who, seconds);
}

/// The rank that a block names in its first line; -1 if it names none.
int named_rank(const std::string& report) {
  constexpr std::string_view kBegin = "sluice: rank ";
  int rank = -1;
  if (report.starts_with(kBegin))
    std::from_chars(report.data() + kBegin.size(), report.data() + report.size(), rank);
  return rank;
}

std::string first_words(const JobEnd& end) {
  if (!end.endings.empty()) return end.endings.front().report;
  for (const LostHost& host : end.lost)
    if (!host.ranks.empty())
      return fmt::format(
          "sluice: rank {} of {} failed, so the job ends with exit code {}:\n  it died without a word, with its host",
          host.ranks.front(), end.ranks, static_cast<int>(ExitCode::kInternal));
  return fmt::format("sluice: the job ends with exit code {}: a host is lost",
                     static_cast<int>(ExitCode::kInternal));
}

std::string host_line(const JobEnd& end, const std::string& words) {
  const int rank = named_rank(words);
  const auto found = end.hosts.find(rank);
  return found == end.hosts.end() ? "" : fmt::format("\n  host: {} (rank {})", found->second, rank);
}

/// How far the run was, as far as its status can be read.
std::string progress_line(const std::filesystem::path& run) {
  std::string line;
  if (run.empty()) return line;
  static_cast<void>(outcome_of([&] {
    const nlohmann::json status = read_status(run);
    if (status.empty()) return;
    const auto saved = status.find("saved_step");
    line = fmt::format("\n  run: {}, {}", progress_text(status),
                       saved == status.end()
                           ? "nothing saved"
                           : fmt::format("last save: step {}, {}", json_text(*saved),
                                         json_text(status.value("saved", nlohmann::json("?")))));
  }));
  return line;
}

std::string advice(const JobEnd& end) {
  std::vector<std::string> names;
  for (const LostHost& host : end.lost) names.push_back(host.name);
  return fmt::format(
      "\n  to do: bring {} back, or leave {} out of the hosts, and start the same command again: a training goes on "
      "from its last save, and what still runs on a host that returns is ended first",
      fmt::join(names, ", "), names.size() == 1 ? "it" : "them");
}

}  // namespace

std::string end_report(const JobEnd& end) {
  if (end_code(end) == 0) return "";
  std::string report = first_words(end);
  report += host_line(end, report);
  for (const LostHost& host : end.lost) report += "\n  lost: " + lost_text(host);
  report += progress_line(end.run);
  if (!end.lost.empty()) report += advice(end);
  return report;
}

int end_code(const JobEnd& end) {
  if (!end.endings.empty()) return end.endings.front().code;
  return end.lost.empty() ? 0 : static_cast<int>(ExitCode::kInternal);
}

}  // namespace sluice
