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
#include <optional>
#include <span>

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

  /// Writes this rank's pieces of a file, gathered into large writes, and the header on rank 0; then fsyncs.
  /// Dirty pages stay within twice the staging bytes.
  void write(int file);

  /// Bytes that this rank has written so far.
  [[nodiscard]] std::int64_t written_bytes() const { return written_bytes_; }
  [[nodiscard]] std::int64_t copied_bytes() const { return copied_bytes_; }
  [[nodiscard]] std::int64_t staging_bytes() const { return staging_.bytes(); }

 private:
  void write_header(const WeightFile& layout);
  void write_directly(const ExportPiece& piece, const std::byte* values);
  void convert(const ExportPiece& piece);
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
  int half_ = 0;                 ///< half of the staging memory that is filled
  std::vector<std::byte> rows_;  ///< rows of a matrix before they are transposed
  std::int64_t staged_at_ = 0;   ///< offset in the file of the staged bytes
  std::int64_t staged_ = 0;
  std::filesystem::path path_;  ///< path of the file being written
  std::int64_t writes_ = 0;
  std::int64_t written_bytes_ = 0;
  std::int64_t copied_bytes_ = 0;
  std::optional<WriteBehind> out_;  ///< opened at the first write; last: it uses the staging memory
};

}  // namespace sluice
