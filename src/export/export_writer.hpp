// Writes one rank's part of an export, into files that exist already.
#pragma once

#include "base/boxes/box.hpp"
#include "base/bytes.hpp"
#include "device/memory.hpp"
#include "export/export_plan.hpp"
#include "io/blocks/write_behind.hpp"
#include "shard/shard_values.hpp"
#include "weights/entry_reader.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace sluice {

struct ExportWriterOptions {
  std::filesystem::path source;  ///< directory of the files from which tensors are copied
  /// Bytes of staging memory; one half is filled while the other one is written.
  std::int64_t staging_bytes = 8 * kMiB;
  /// Whether files that were written or copied stay in the page cache.
  bool keep_cached = false;
  std::function<void()> after_write = [] {};  ///< function called after every write
  /// Function that takes the bytes of a file if this rank does not see its directory; empty: the file is
  /// written.
  std::function<void(std::int64_t offset, std::span<const std::byte> data)> send{};
};

class ExportWriter {
 public:
  /// Writes into `directory`. `plan` and `values` must outlive the writer.
  ExportWriter(const ExportPlan& plan, const ShardValues& values, std::filesystem::path directory,
               ExportWriterOptions options);

  /// Largest magnitudes of the blocks of all weights of which a file has codes or scales, over the elements
  /// that this rank owns; the same blocks in the same order on every rank. They must be replaced by the
  /// largest over all ranks before write().
  [[nodiscard]] std::span<std::int64_t> find_magnitudes(int file);

  /// Writes this rank's moves to a file, gathered into large writes, and on rank 0 the header; then syncs
  /// the file. Dirty pages stay within twice the staging bytes. If the file has codes, find_magnitudes() must
  /// come first; Error(kBadData) if a weight for codes is NaN or infinite.
  void write(int file);

  /// Bytes that this rank has written so far.
  [[nodiscard]] std::int64_t written_bytes() const { return written_bytes_; }
  [[nodiscard]] std::int64_t copied_bytes() const { return copied_bytes_; }
  [[nodiscard]] std::int64_t staging_bytes() const { return staging_.bytes(); }

 private:
  void write_header(const WeightFile& layout);
  void write_directly(const ExportMove& move, const std::byte* values);
  void convert(const ExportMove& move);
  /// Writes `count` elements of a persistent buffer, from element `first` of the move on, to `out`.
  void write_buffer(const ExportMove& move, std::int64_t first, std::int64_t count, std::byte* out);
  [[nodiscard]] const float* numbers(std::int64_t begin, std::int64_t count);
  void require_finite() const;
  void write_codes(const ExportMove& move);
  void write_block_scales(const ExportMove& move);
  void transpose(const ExportMove& move);
  void transpose(const ExportMove& move, const Box& lines);
  void copy(const ExportMove& move);
  [[nodiscard]] std::span<std::byte> room_at(std::int64_t offset, std::int64_t element_bytes);
  void flush();
  /// Writes the filled half of the staging memory, and goes on with the other one.
  void emit_half(const WrittenBlock& block);
  void emit(const WrittenBlock& block);
  void send(const WrittenBlock& block) const;
  void finish();
  [[nodiscard]] std::int64_t half_bytes() const { return staging_.bytes() / 2; }
  [[nodiscard]] std::byte* half() const { return staging_.data() + half_ * half_bytes(); }

  const ExportPlan& plan_;
  const ShardValues& values_;
  std::filesystem::path directory_;
  ExportWriterOptions options_;
  EntryReader source_;
  MemoryBlock staging_;
  int half_ = 0;                          ///< number of the half that is being filled
  std::vector<std::byte> rows_;           ///< rows of a matrix before they are transposed
  std::vector<float> numbers_;            ///< elements before they are quantised
  std::vector<std::int64_t> magnitudes_;  ///< largest magnitudes of blocks, weight after weight
  /// Index of each weight's first magnitude, by its number in ExportPlan::quantised().
  std::map<int, std::size_t> magnitudes_at_;
  std::int64_t staged_at_ = 0;  ///< offset in the file of the staged bytes
  std::int64_t staged_ = 0;
  std::filesystem::path path_;  ///< path of the file being written
  std::int64_t writes_ = 0;
  std::int64_t written_bytes_ = 0;
  std::int64_t copied_bytes_ = 0;
  /// Present file, opened at the first write; declared last because it uses the staging memory.
  std::optional<WriteBehind> out_;
};

}  // namespace sluice
