// File of one rank in a checkpoint: a safetensors file with the rank's ranges of logical tensors.
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

/// Name of a rank's file: "rank-00002.safetensors".
[[nodiscard]] std::string rank_file_name(int rank);

class RankFileWriter {
 public:
  /// Plans a file of `spans`, as list_state() returns them: copies are left out, and adjacent spans become
  /// one entry.
  RankFileWriter(const ParameterManifest& manifest, std::span<const StateSpan> spans, int rank);

  [[nodiscard]] const std::string& name() const { return file_.name; }
  /// Bytes of the whole file, header included.
  [[nodiscard]] std::int64_t bytes() const { return file_.bytes; }

  /// Creates the file in `directory`.
  void create(const std::filesystem::path& directory);
  /// Appends the next bytes of the spans.
  void append(std::span<const std::byte> bytes) { out_->append(bytes); }
  /// Waits until all bytes are on disk; returns the file's description for the manifest. All bytes must have
  /// been appended.
  [[nodiscard]] SavedFile close();

 private:
  void add(const ParameterManifest& manifest, const StateSpan& span);

  int rank_;
  SavedFile file_;
  std::string header_;
  std::optional<BlockWriter> out_;
};

}  // namespace sluice
