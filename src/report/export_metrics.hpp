// Exports a run's metrics to formats of other programs.
#pragma once

#include "report/joined_metrics.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

namespace sluice {

/// Format of a table for other programs.
enum class TableFormat : std::uint8_t {
  /// CSV: a header, then a line per step, with a cell per number ("moe/expert_tokens/0/17"), empty if there
  /// is none.
  kCsv,
  kJsonl  ///< JSONL: an object per step, with lists for rows of several numbers, and null if there is none
};

/// Writes every column to a file, which appears, or replaces an earlier one, when it is complete. Error(kIo).
void export_table(const JoinedMetrics& metrics, TableFormat format, const std::filesystem::path& file);

/// Writes an event file for TensorBoard into `directory`, which is created if missing: a tag per number, but
/// for moe/expert_tokens a tag per layer: "moe/busiest_expert/0", tokens of the busiest expert over their
/// mean. A second export replaces the first. Returns the file. Error(kIo).
std::filesystem::path export_events(const JoinedMetrics& metrics, const std::filesystem::path& directory);

/// Event file that grows with its run, for a TensorBoard that is open meanwhile.
class GrowingEvents {
 public:
  /// Creates the file in `directory` anew. Error(kIo).
  explicit GrowingEvents(const std::filesystem::path& directory);
  ~GrowingEvents();
  GrowingEvents(const GrowingEvents&) = delete;
  GrowingEvents& operator=(const GrowingEvents&) = delete;

  /// Adds rows that are not in the file yet. Steps that were trained again are added again; TensorBoard takes
  /// the later ones. Error(kIo); Error(kBadData) for rows that cannot be read, and then none is added.
  void add_new(const JoinedMetrics& metrics);
  [[nodiscard]] const std::filesystem::path& file() const { return path_; }

 private:
  struct File;
  std::filesystem::path path_;
  std::unique_ptr<File> file_;
  std::vector<std::int64_t> steps_;  ///< steps whose rows are in the file
};

}  // namespace sluice
