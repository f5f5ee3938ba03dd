// The file that a rank writes of a saved step: a safetensors file of its ranges of logical tensors.
#pragma once

#include "checkpoint/block_writer.hpp"
#include "checkpoint/saved_step.hpp"
#include "checkpoint/state_spans.hpp"
#include "manifest/manifest.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace sluice {

/// "rank-00002.safetensors"
[[nodiscard]] std::string rank_file_name(int rank);

class RankFileWriter {
 public:
  /// `spans`, as list_state() gives them, must outlive the writer; copies are left out, and spans that follow each other
  /// are one entry.
  RankFileWriter(const ParameterManifest& manifest, std::span<const StateSpan> spans, int rank);

  /// Of the whole file, header included.
  [[nodiscard]] std::int64_t bytes() const { return file_.bytes; }

  /// Creates the file in `directory`.
  void create(const std::filesystem::path& directory);
  /// Writes about `bytes` more, if there are so many left.
  void write(std::int64_t bytes);
  /// Waits until all is on disk. The file's place in the manifest.
  [[nodiscard]] SavedFile close();

 private:
  void add(const ParameterManifest& manifest, const StateSpan& span);

  std::span<const StateSpan> spans_;
  int rank_;
  SavedFile file_;
  std::string header_;
  std::size_t next_ = 0;         ///< span to be written
  std::int64_t next_bytes_ = 0;  ///< of it that are written
  std::optional<BlockWriter> out_;
};

}  // namespace sluice
