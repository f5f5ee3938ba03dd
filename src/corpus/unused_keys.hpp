// Counts keys of a file's rows that were not used, for one line that names them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice::corpus {

/// Counts rows by key, in the order in which keys come; the first hundred keys alone.
class UnusedKeys {
 public:
  /// Adds the unused keys of one row.
  void add(std::span<const std::string> keys);
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  /// Number of rows in which a key was not used.
  [[nodiscard]] std::int64_t rows_with(const std::string& key) const;
  /// Text of the keys: "'id' (200 rows), 'messages.weight' (1 row)".
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::pair<std::string, std::int64_t>> rows_;
};

}  // namespace sluice::corpus
