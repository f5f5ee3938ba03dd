// One rank's part of an export: writes its pieces into files that exist already.
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
  std::filesystem::path source;               ///< directory of the files that tensors are copied from
  std::int64_t staging_bytes = 8 * kMiB;      ///< half is filled while the other half is written
  bool keep_cached = false;                   ///< leave what was written or copied in the page cache
  std::function<void()> after_write = [] {};  ///< called after every write
  /// Takes what would be written of a file, where this rank does not see the directory; empty: it is written.
  std::function<void(std::int64_t offset, std::span<const std::byte> data)> send{};
};

class ExportWriter {
 public:
  /// `plan` and `values` must outlive the writer. Writes into `directory`.
  ExportWriter(const ExportPlan& plan, const ShardValues& values, std::filesystem::path directory,
               ExportWriterOptions options);

  /// The largest magnitudes of the blocks of all weights that a file has codes or scales of, as far as this
  /// rank owns their elements; the same blocks in the same order on every rank. Before write() they are to be
  /// replaced by the largest of all ranks.
  [[nodiscard]] std::span<std::int64_t> find_magnitudes(int file);

  /// Writes this rank's pieces of a file, gathered into large writes, and the header on rank 0; then fsyncs.
  /// Dirty pages stay within twice the staging bytes. Where the file has codes find_magnitudes() comes first;
  /// Error(kBadData) if a weight that they are made of is NaN or infinite.
  void write(int file);

  /// Bytes that this rank has written so far.
  [[nodiscard]] std::int64_t written_bytes() const { return written_bytes_; }
  [[nodiscard]] std::int64_t copied_bytes() const { return copied_bytes_; }
  [[nodiscard]] std::int64_t staging_bytes() const { return staging_.bytes(); }

 private:
  void write_header(const WeightFile& layout);
  void write_directly(const ExportPiece& piece, const std::byte* values);
  void convert(const ExportPiece& piece);
  [[nodiscard]] const float* numbers(std::int64_t begin, std::int64_t count);
  void require_finite() const;
  void write_codes(const ExportPiece& piece);
  void write_block_scales(const ExportPiece& piece);
  void transpose(const ExportPiece& piece);
  void transpose(const ExportPiece& piece, const Box& lines);
  void copy(const ExportPiece& piece);
  [[nodiscard]] std::span<std::byte> room_at(std::int64_t offset, std::int64_t element_bytes);
  void flush();
  /// Writes what lies in the half that is filled, and goes on with the other one.
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
  int half_ = 0;                              ///< half of the staging memory that is filled
  std::vector<std::byte> rows_;               ///< rows of a matrix before they are transposed
  std::vector<float> numbers_;                ///< elements before they are codes
  std::vector<std::int64_t> magnitudes_;      ///< largest magnitudes of blocks, weight after weight
  std::map<int, std::size_t> magnitudes_at_;  ///< where those of a weight begin, by ExportPlan::quantised()
  std::int64_t staged_at_ = 0;                ///< offset in the file of the staged bytes
  std::int64_t staged_ = 0;
  std::filesystem::path path_;  ///< path of the file being written
  std::int64_t writes_ = 0;
  std::int64_t written_bytes_ = 0;
  std::int64_t copied_bytes_ = 0;
  std::optional<WriteBehind> out_;  ///< opened at the first write; last: it uses the staging memory
};

}  // namespace sluice
