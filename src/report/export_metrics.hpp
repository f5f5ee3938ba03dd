// A run's metrics in the formats of other programs.
#pragma once

#include "report/joined_metrics.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

namespace sluice {

/// Format of a table for other programs.
enum class TableFormat : std::uint8_t {
  /// A header, a line a step; a cell for each number ("moe/expert_tokens/0/17"); empty where there is none.
  kCsv,
  kJsonl  ///< an object a step; lists for rows of several numbers; null where there is none
};

/// Every column. The file appears, or replaces an earlier one, when it is whole. Error(kIo).
void export_table(const JoinedMetrics& metrics, TableFormat format, const std::filesystem::path& file);

/// An event file in `directory`, which is made if it is missing, for TensorBoard: a tag for each number, but
/// of moe/expert_tokens a tag for each layer: "moe/busiest_expert/0", tokens of the busiest expert over their
/// mean. A second export replaces the first. Returns the file. Error(kIo).
std::filesystem::path export_events(const JoinedMetrics& metrics, const std::filesystem::path& directory);

/// Such an event file that grows with its run, for a TensorBoard that is open meanwhile.
class GrowingEvents {
 public:
  /// Begins the file in `directory` anew. Error(kIo).
  explicit GrowingEvents(const std::filesystem::path& directory);
  ~GrowingEvents();
  GrowingEvents(const GrowingEvents&) = delete;
  GrowingEvents& operator=(const GrowingEvents&) = delete;

  /// Adds the rows that are not in the file yet. Steps that were trained again come again: TensorBoard takes
  /// the later ones. Error(kIo); Error(kBadData) for rows that cannot be read, and then none is added.
  void add_new(const JoinedMetrics& metrics);
  [[nodiscard]] const std::filesystem::path& file() const { return path_; }

 private:
  struct File;
  std::filesystem::path path_;
  std::unique_ptr<File> file_;
  std::vector<std::int64_t> steps_;  ///< steps whose rows the file has
};

}  // namespace sluice
