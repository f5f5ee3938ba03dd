#include "job/launch/rank_death.hpp"

#include "base/text.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <cstring>
#include <sstream>

namespace sluice {
namespace {

/// Exit statuses above this are of processes that a signal has ended: the status minus this is its number.
constexpr int kSignalStatus = 128;

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

std::string signal_text(int number) {
  const char* const name = ::sigabbrev_np(number);
  return name == nullptr ? fmt::format("signal {}", number) : fmt::format("SIG{}", name);
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
  // Matches mpirun's "... The first process to do so was: Process name: [[18213,1],2] Exit code: 65"
  const std::string process = word_behind(text, "first process to do so was: Process name: ");
  const auto named = number_behind(process, "],"), code = number_behind(text, " Exit code: ");
  if (named && code) return RankDeath{.rank = static_cast<int>(*named), .code = static_cast<int>(*code)};
  return std::nullopt;
}

RankDeath death_of_status(int status) {
  return status > kSignalStatus ? RankDeath{.signal = status - kSignalStatus} : RankDeath{.code = status};
}

std::string death_text(const RankDeath& death) {
  if (death.signal == 0)
    return fmt::format("it has ended with exit code {} and has not told why", death.code);
  if (death.has_told) return fmt::format("it crashed with {}; its stack is above", signal_text(death.signal));
  const std::string where = death.host.empty() ? "its host" : death.host;
  std::string text = fmt::format("it was ended by {}, without a word", signal_text(death.signal));
  if (death.signal == SIGKILL)
    text += fmt::format(
        ". The kernel sends that where memory has run out, which `dmesg` on {} tells; else a user, a "
        "container or a scheduler has",
        where);
  return text;
}

}  // namespace sluice
