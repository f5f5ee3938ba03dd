#include "base/bytes.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace sluice {
namespace {

constexpr std::array<std::pair<std::string_view, double>, 10> kUnits{{{"", 1},
                                                                      {"B", 1},
                                                                      {"kB", 1e3},
                                                                      {"MB", 1e6},
                                                                      {"GB", 1e9},
                                                                      {"TB", 1e12},
                                                                      {"KiB", 0x1p10},
                                                                      {"MiB", 0x1p20},
                                                                      {"GiB", 0x1p30},
                                                                      {"TiB", 0x1p40}}};

}  // namespace

std::optional<std::int64_t> parse_bytes(std::string_view text) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc{} || number < 0 || !std::isfinite(number)) return std::nullopt;
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  for (const auto& [name, factor] : kUnits) {
    if (unit != name) continue;
    const double bytes = std::round(number * factor);
    if (bytes > 0x1p62) return std::nullopt;
    return static_cast<std::int64_t>(bytes);
  }
  return std::nullopt;
}

std::string format_bytes(std::int64_t bytes) {
  const double value = static_cast<double>(bytes);
  if (bytes < 1000) return fmt::format("{} B", bytes);
  if (value < 1e6) return fmt::format("{:.2f} kB", value / 1e3);
  if (value < 1e9) return fmt::format("{:.2f} MB", value / 1e6);
  if (value < 1e12) return fmt::format("{:.2f} GB", value / 1e9);
  return fmt::format("{:.2f} TB", value / 1e12);
}

std::string format_mib(std::int64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / static_cast<double>(kMiB));
}

}  // namespace sluice
