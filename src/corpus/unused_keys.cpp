#include "corpus/unused_keys.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sluice::corpus {

void UnusedKeys::add(std::span<const std::string> keys) {
  constexpr std::size_t kMostKeys = 100;
  for (const std::string& key : keys) {
    const auto found = std::ranges::find(rows_, key, &std::pair<std::string, std::int64_t>::first);
    if (found != rows_.end())
      ++found->second;
    else if (rows_.size() < kMostKeys)
      rows_.emplace_back(key, 1);
  }
}

std::int64_t UnusedKeys::rows_with(const std::string& key) const {
  const auto found = std::ranges::find(rows_, key, &std::pair<std::string, std::int64_t>::first);
  return found == rows_.end() ? 0 : found->second;
}

std::string UnusedKeys::text() const {
  constexpr std::size_t kMostKeysListed = 20;
  std::vector<std::string> parts;
  for (const auto& [key, rows] : rows_)
    parts.push_back(fmt::format("'{}' ({} row{})", printable(key, 40), rows, rows == 1 ? "" : "s"));
  return join_some(parts, kMostKeysListed);
}

}  // namespace sluice::corpus
