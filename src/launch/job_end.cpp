#include "launch/job_end.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "process/signal_watch.hpp"
#include "process/status_file.hpp"

#include <fmt/ranges.h>
#include <signal.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

namespace sluice {
namespace {

/// Exit statuses above this are of processes that a signal has ended: the status minus this is its number.
constexpr int kSignalStatus = 128;

const FailureId kLostRank = "launch.lost_rank", kLostHost = "launch.lost_host";

/// Words of a text with one blank between them.
std::string one_line(std::string_view text) {
  std::istringstream words{std::string(text)};
  std::string line;
  for (std::string word; words >> word;) line += line.empty() ? word : " " + word;
  return line;
}

/// Word behind the first `mark` in a text; "" without one.
std::string word_behind(const std::string& text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  if (at == text.npos) return "";
  const std::size_t begin = at + mark.size();
  return text.substr(begin, text.find(' ', begin) - begin);
}

/// Text about a death, with its possible causes: "it was ended by SIGKILL, without a word. ...".
std::string death_text(const RankDeath& death) {
  if (death.signal == 0)
    return fmt::format("it has ended with exit code {} and has not told why", death.code);
  if (death.has_told) return fmt::format("it crashed with {}; its stack is above", signal_name(death.signal));
  const std::string where = death.host.empty() ? "its host" : death.host;
  std::string text = fmt::format("it was ended by {}, without a word", signal_name(death.signal));
  if (death.signal == SIGKILL)
    text += fmt::format(
        ". The kernel sends that where memory has run out, which `dmesg` on {} tells; else a user, a "
        "container or a scheduler has",
        where);
  return text;
}

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

std::string first_words(const JobEnd& end) {
  const int code = end_code(end);
  if (!end.endings.empty()) return end.endings.front().report;
  if (end.death && end.death->rank >= 0)
    return failed_rank_text(end.death->rank, end.ranks, code, with_id(death_text(*end.death), kLostRank));
  for (const LostHost& host : end.lost)
    if (!host.ranks.empty())
      return failed_rank_text(host.ranks.front(), end.ranks, code,
                              with_id("it died without a word, with its host", kLostHost));
  const std::string cause = end.lost.empty()
                                ? with_id("a rank has died: " + death_text(*end.death), kLostRank)
                                : with_id("a host is lost", kLostHost);
  return fmt::format("sluice: the job ends with exit code {}: {}", code, cause);
}

/// Hosts of the ranks that a text names, "h1 (rank 0), h3 (rank 2)"; "" if none is known.
std::string hosts_of_named(const JobEnd& end, std::string_view text) {
  constexpr std::string_view kMark = "rank ";
  std::string hosts;
  std::set<int> told;
  for (std::size_t at = text.find(kMark); at != text.npos; at = text.find(kMark, at + 1)) {
    const int rank = static_cast<int>(leading_number(text.substr(at + kMark.size())).value_or(-1));
    const auto found = end.hosts.find(rank);
    std::string host = found == end.hosts.end() ? "" : found->second;
    if (host.empty() && end.death && end.death->rank == rank) host = end.death->host;
    if (!host.empty() && told.insert(rank).second)
      hosts += fmt::format("{}{} (rank {})", hosts.empty() ? "" : ", ", host, rank);
  }
  return hosts;
}

std::string host_line(const JobEnd& end, const std::string& words) {
  const std::string hosts = hosts_of_named(end, words);
  return hosts.empty() ? "" : "\n  host: " + hosts;
}

/// Status of the run; empty if it cannot be read, or is of an earlier start: a launch whose host runs no rank
/// may see another disk than the ranks.
nlohmann::json current_status(const JobEnd& end) {
  nlohmann::json status = end.run.empty() ? nlohmann::json::object() : status_if_readable(end.run);
  const bool is_current = number_in(status, "saved_step").value_or(0) >= static_cast<double>(end.saved_step);
  return is_current ? status : nlohmann::json::object();
}

/// Line about the progress of the run, as far as it is known.
std::string progress_line(const JobEnd& end) {
  const nlohmann::json status = current_status(end);
  if (status.empty())
    return end.saved_step == 0 ? "" : fmt::format("\n  run: last save: step {}", end.saved_step);
  const auto saved = status.find("saved_step");
  return fmt::format("\n  run: {}, {}", progress_text(status),
                     saved == status.end()
                         ? "nothing saved"
                         : fmt::format("last save: step {}, {}", json_text(*saved),
                                       json_text(status.value("saved", nlohmann::json("?")))));
}

std::string advice(const JobEnd& end) {
  if (end.lost.empty())
    return "\n  to do: remove the cause, and start the same command again: a training goes on from its last save";
  std::vector<std::string> names;
  for (const LostHost& host : end.lost) names.push_back(host.name);
  return fmt::format(
      "\n  to do: bring {} back, or leave {} out of the hosts, and start the same command again: a training "
      "goes on from its last save, and what still runs on a host that returns is ended first",
      fmt::join(names, ", "), names.size() == 1 ? "it" : "them");
}

}  // namespace

std::optional<RankDeath> parse_rank_death(std::string_view block) {
  const std::string text = one_line(block);
  // Matches mpirun's "... noticed that process rank 2 with PID 17 on node h3 exited on signal 9 (Killed)."
  const auto rank = number_behind(text, "process rank "), signal = number_behind(text, " exited on signal ");
  if (rank && signal)
    return RankDeath{.rank = static_cast<int>(*rank),
                     .host = word_behind(text, " on node "),
                     .signal = static_cast<int>(*signal)};
  // Matches mpirun's "... The first process to do so was: Process name: [[18213,1],2] Exit code: 65"; from Open
  // MPI 5 on the name is "[prterun-h3-18213@1,2]" (PRTE_NAME_PRINT: the job, a comma, the rank).
  const std::string process = word_behind(text, "first process to do so was: Process name: ");
  const auto named = leading_number(std::string_view(process).substr(process.rfind(',') + 1));
  const auto code = number_behind(text, " Exit code: ");
  if (named && code) return RankDeath{.rank = static_cast<int>(*named), .code = static_cast<int>(*code)};
  return std::nullopt;
}

RankDeath death_of_status(int status) {
  return status > kSignalStatus ? RankDeath{.signal = status - kSignalStatus} : RankDeath{.code = status};
}

std::string end_report(const JobEnd& end) {
  if (end_code(end) == 0) return "";
  std::string report = first_words(end);
  report += host_line(end, report);
  for (const LostHost& host : end.lost) report += "\n  lost: " + lost_text(host);
  report += progress_line(end);
  if (end.endings.empty() || !end.lost.empty()) report += advice(end);
  return report;
}

int end_code(const JobEnd& end) {
  if (!end.endings.empty()) return end.endings.front().code;
  const bool is_by_code = end.death && end.death->signal == 0 && (end.death->rank >= 0 || end.lost.empty());
  if (is_by_code) return end.death->code;
  return end.lost.empty() && !end.death ? 0 : static_cast<int>(ExitCode::kInternal);
}

bool may_start_again(const JobEnd& end) {
  constexpr std::array kFinal{ExitCode::kDone,      ExitCode::kUsage,     ExitCode::kBadData,
                              ExitCode::kTooLittle, ExitCode::kResumable, ExitCode::kNumerics,
                              ExitCode::kBadConfig};
  const bool is_final = std::ranges::find(kFinal, static_cast<ExitCode>(end_code(end))) != kFinal.end();
  return !is_final && std::ranges::find(end.endings, "io.no_space", &RankRecord::id) == end.endings.end();
}

}  // namespace sluice
