#include "comm/position.hpp"

#include "base/clock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>

namespace sluice::position {
namespace {

struct BegunOperation {
  std::atomic<const char*> name{nullptr};
  std::atomic<std::int64_t> sequence{0};
};

using Name = std::array<char, 48>;

// Last operations, written by one thread; a reader may see the newest entry half replaced, which does no harm
// in a report.
std::array<BegunOperation, kRemembered> operations;
std::atomic<std::uint64_t> begun{0};
std::array<Name, 2> sections{Name{"start"}, Name{}};
std::atomic<int> section{0};
std::atomic<double> progress_at{0};

double now() { return Seconds(SteadyClock::now().time_since_epoch()).count(); }

const BegunOperation& operation(std::uint64_t number) { return operations[number % kRemembered]; }

}  // namespace

void enter(std::string_view name) {
  const int next = 1 - section.load();
  Name& text = sections[static_cast<std::size_t>(next)];
  text.fill('\0');
  name.copy(text.data(), text.size() - 1);
  section = next;
  progress_at = now();
}

void begin(const char* name, std::int64_t sequence) {
  BegunOperation& next = operations[begun.load() % kRemembered];
  next.name = name;
  next.sequence = sequence;
  ++begun;
  progress_at = now();
}

double seconds_since_progress() { return now() - progress_at; }

void forgive(double seconds) { progress_at = progress_at + seconds; }

std::string short_text() {
  std::array<char, 160> text{};
  return {text.data(), write_short(text.data(), text.size())};
}

std::string operations_text(std::size_t most) {
  std::string text;
  const std::uint64_t all = begun;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>({all, most, kRemembered}); ++i) {
    const BegunOperation& one = operation(all - 1 - i);
    text += fmt::format("{}{} #{}", i == 0 ? "" : ", ", one.name.load(), one.sequence.load());
  }
  return text.empty() ? "none" : text;
}

std::size_t write_short(char* out, std::size_t size) noexcept {
  const std::uint64_t all = begun;
  const char* const name = sections[static_cast<std::size_t>(section.load())].data();
  // snprintf of strings and integers allocates nothing.
  const int length =
      all == 0 ? std::snprintf(out, size, "section %s", name)
               : std::snprintf(out, size, "section %s, after %s #%lld", name, operation(all - 1).name.load(),
                               static_cast<long long>(operation(all - 1).sequence.load()));
  return std::min(static_cast<std::size_t>(std::max(length, 0)), size - 1);
}

}  // namespace sluice::position
