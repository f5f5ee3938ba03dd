#include "base/bytes.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace sluice {
namespace {

/// Factor of a unit of bytes, written with or without its B: "MiB", "Mi", "MB", "M".
std::optional<double> unit_factor(std::string_view unit) {
  constexpr std::array<std::pair<std::string_view, double>, 10> kPrefixes{{{"k", 1e3},
                                                                           {"K", 1e3},
                                                                           {"M", 1e6},
                                                                           {"G", 1e9},
                                                                           {"T", 1e12},
                                                                           {"Ki", 0x1p10},
                                                                           {"Mi", 0x1p20},
                                                                           {"Gi", 0x1p30},
                                                                           {"Ti", 0x1p40},
                                                                           {"", 1}}};
  const bool has_letter = unit.ends_with('B');
  if (has_letter) unit.remove_suffix(1);
  for (const auto& [prefix, factor] : kPrefixes)
    if (unit == prefix && (has_letter || !prefix.empty())) return factor;
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> parse_bytes(std::string_view text) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc{} || number < 0 || !std::isfinite(number)) return std::nullopt;
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  if (unit.empty() && number == 0) return 0;
  const std::optional<double> factor = unit_factor(unit);
  if (!factor) return std::nullopt;
  const double bytes = std::round(number * *factor);
  if (bytes > 0x1p62) return std::nullopt;
  return static_cast<std::int64_t>(bytes);
}

std::optional<std::int64_t> parse_link_rate(std::string_view text) {
  constexpr std::string_view kBits = "bit";
  if (!text.ends_with(kBits)) return parse_bytes(text);
  const auto bits = parse_bytes(std::string(text.substr(0, text.size() - kBits.size())) + "B");
  return bits ? std::optional(*bits / 8) : std::nullopt;
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
