#include "export/export_writer.hpp"

#include "base/boxes/transpose.hpp"
#include "base/dtype.hpp"
#include "base/error.hpp"
#include "base/fault.hpp"
#include "base/text.hpp"
#include "comm/position.hpp"
#include "encoding/quantise.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sluice {
namespace {

/// Bytes of a move from which on it is written from the arena itself, if it needs no conversion.
constexpr std::int64_t kDirectBytes = 256 * kKiB;
/// Rows of a matrix that are transposed together, and most elements of each: at most 1 MiB of float32.
constexpr std::int64_t kRowsAtOnce = 64, kMostLines = 4096;
/// Elements that are quantised together.
constexpr std::int64_t kCodesAtOnce = 256 * kKiB;

}  // namespace

ExportWriter::ExportWriter(const ExportPlan& plan, const ShardValues& values, std::filesystem::path directory,
                           ExportWriterOptions options)
    : plan_(plan),
      values_(values),
      directory_(std::move(directory)),
      options_(std::move(options)),
      source_(plan.source(), options_.source, options_.keep_cached ? SourcePages::kKeep : SourcePages::kDrop),
      staging_(allocate(MemoryKind::kPrivate, options_.staging_bytes, "export staging")) {}

std::span<std::int64_t> ExportWriter::find_magnitudes(int file) {
  magnitudes_at_.clear();
  std::size_t blocks = 0;
  for (const int weight : plan_.quantised_in(file)) {
    magnitudes_at_[weight] = blocks;
    blocks +=
        static_cast<std::size_t>(plan_.quantised()[static_cast<std::size_t>(weight)].encoding.scale_count);
  }
  magnitudes_.assign(blocks, 0);
  for (const auto& [number, first_block] : magnitudes_at_) {
    std::int64_t* const largest = magnitudes_.data() + first_block;
    const QuantisedWeight& weight = plan_.quantised()[static_cast<std::size_t>(number)];
    plan_.for_each_owned(weight, values_.rank(), [&](const ExportMove& move) {
      for (std::int64_t done = 0; done < move.count; done += kCodesAtOnce) {
        const std::int64_t count = std::min(move.count - done, kCodesAtOnce);
        raise_magnitudes(weight.encoding, {move.file + done, move.file + done + count},
                         numbers(move.arena + done, count), largest);
      }
    });
  }
  return magnitudes_;
}

void ExportWriter::require_finite() const {
  for (const auto& [number, at] : magnitudes_at_) {
    const QuantisedWeight& weight = plan_.quantised()[static_cast<std::size_t>(number)];
    const std::span blocks =
        std::span(magnitudes_).subspan(at, static_cast<std::size_t>(weight.encoding.scale_count));
    if (std::ranges::all_of(blocks, is_finite_magnitude)) continue;
    fail(
        ExitCode::kBadData,
        "{}: found NaN or infinity, expected numbers: FP8 codes are made of none of these. Export an earlier "
        "checkpoint, or with export.format = \"plain\" to look at the weights",
        printable(weight.name));
  }
}

void ExportWriter::write(int file) {
  require_finite();
  const WeightFile& layout = plan_.files()[static_cast<std::size_t>(file)];
  path_ = directory_ / layout.name;
  if (values_.rank() == 0) write_header(layout);
  plan_.for_each_move_to(file, values_.rank(), [&](const ExportMove& move) {
    const bool is_of_shards = !move.is_copied() && !move.is_buffer && move.part == StoredPart::kValues;
    const std::byte* values = is_of_shards ? values_.find(move.arena, move.dtype) : nullptr;
    if (move.part == StoredPart::kCodes)
      write_codes(move);
    else if (move.part == StoredPart::kScales)
      write_block_scales(move);
    else if (move.is_copied())
      copy(move);
    else if (move.is_box())
      transpose(move);
    else if (values != nullptr && move.bytes() >= kDirectBytes)
      write_directly(move, values);
    else
      convert(move);
  });
  flush();
  finish();
}

void ExportWriter::write_header(const WeightFile& layout) {
  const std::string header = layout.header();
  for (std::size_t done = 0; done < header.size();) {
    const std::span<std::byte> room = room_at(static_cast<std::int64_t>(done), 1);
    const std::size_t count = std::min(room.size(), header.size() - done);
    std::memcpy(room.data(), header.data() + done, count);
    staged_ += static_cast<std::int64_t>(count);
    done += count;
  }
}

void ExportWriter::write_directly(const ExportMove& move, const std::byte* values) {
  flush();
  for (std::int64_t done = 0; done < move.bytes();) {
    const std::int64_t bytes = std::min(move.bytes() - done, half_bytes());
    emit({move.offset + done, {values + done, static_cast<std::size_t>(bytes)}});
    done += bytes;
  }
}

/// Elements of the arena as float32, valid until the next call.
const float* ExportWriter::numbers(std::int64_t begin, std::int64_t count) {
  numbers_.resize(std::max(numbers_.size(), static_cast<std::size_t>(count)));
  values_.read(begin, count, DType::kFloat32, reinterpret_cast<std::byte*>(numbers_.data()));
  return numbers_.data();
}

void ExportWriter::write_codes(const ExportMove& move) {
  const Encoding& encoding = plan_.quantised()[static_cast<std::size_t>(move.weight)].encoding;
  const std::int64_t* const largest = magnitudes_.data() + magnitudes_at_.at(move.weight);
  for (std::int64_t done = 0; done < move.count;) {
    const std::span<std::byte> room = room_at(move.offset + done, 1);
    const std::int64_t count = std::min({move.count - done, std::ssize(room), kCodesAtOnce});
    quantise(encoding, {move.file + done, move.file + done + count}, numbers(move.arena + done, count),
             largest, room.data());
    staged_ += count;
    done += count;
  }
}

void ExportWriter::write_block_scales(const ExportMove& move) {
  const Encoding& encoding = plan_.quantised()[static_cast<std::size_t>(move.weight)].encoding;
  const std::int64_t size = size_of(move.dtype);
  for (std::int64_t done = 0; done < move.count;) {
    const std::span<std::byte> room = room_at(move.offset + done * size, size);
    const std::int64_t count = std::min(move.count - done, std::ssize(room) / size);
    const std::size_t begin = magnitudes_at_.at(move.weight) + static_cast<std::size_t>(done);
    write_scales(encoding, std::span(magnitudes_).subspan(begin, static_cast<std::size_t>(count)),
                 room.data());
    staged_ += count * size;
    done += count;
  }
}

void ExportWriter::write_buffer(const ExportMove& move, std::int64_t first, std::int64_t count,
                                std::byte* out) {
  std::vector<float> values(static_cast<std::size_t>(count));
  values_.read_buffers(move.arena + first, count, values.data());
  convert_elements(reinterpret_cast<const std::byte*>(values.data()), DType::kFloat32, out, move.dtype,
                   count);
}

void ExportWriter::convert(const ExportMove& move) {
  const std::int64_t size = size_of(move.dtype);
  for (std::int64_t done = 0; done < move.count;) {
    const std::span<std::byte> room = room_at(move.offset + done * size, size);
    const std::int64_t count = std::min(move.count - done, std::ssize(room) / size);
    if (move.is_buffer)
      write_buffer(move, done, count, room.data());
    else
      values_.read(move.arena + done, count, move.dtype, room.data());
    staged_ += count * size;
    done += count;
  }
}

/// Writes a transposed move, as many lines at once as the staging buffer holds.
void ExportWriter::transpose(const ExportMove& move) {
  flush();
  const std::int64_t room = half_bytes() / size_of(move.dtype);
  const std::int64_t width = std::min(move.length(), room);
  const std::int64_t lines = std::clamp<std::int64_t>(room / width, 1, kMostLines);
  for (std::int64_t column = 0; column < move.length(); column += width)
    for (std::int64_t line = 0; line < move.lines; line += lines)
      transpose(move, {{line, std::min(line + lines, move.lines)},
                       {column, std::min(column + width, move.length())}});
}

/// Writes a part of a move: the lines and columns of a box.
void ExportWriter::transpose(const ExportMove& move, const Box& part) {
  const std::int64_t size = size_of(move.dtype);
  const std::int64_t lines = part.rows.count(), width = part.columns.count();
  rows_.resize(static_cast<std::size_t>(kRowsAtOnce * lines * size));
  for (std::int64_t first = 0; first < width; first += kRowsAtOnce) {
    const std::int64_t rows = std::min(kRowsAtOnce, width - first);
    for (std::int64_t row = 0; row < rows; ++row)
      values_.read(move.arena + (part.columns.begin + first + row) * move.row_stride + part.rows.begin, lines,
                   move.dtype, rows_.data() + row * lines * size);
    transpose_elements({rows_.data(), move.dtype, lines}, rows, lines,
                       {half() + first * size, move.dtype, width});
  }
  const std::int64_t offset = move.offset + (part.rows.begin * move.line_stride + part.columns.begin) * size;
  const std::span<const std::byte> data(half(), static_cast<std::size_t>(lines * width * size));
  if (width == move.line_stride) return emit_half({offset, data});
  emit_half({offset, data, lines, move.line_stride * size});
}

void ExportWriter::copy(const ExportMove& move) {
  const CheckpointEntry& entry = plan_.source().entries[static_cast<std::size_t>(move.source)];
  const std::int64_t size = size_of(move.dtype);
  for (std::int64_t done = 0; done < move.count;) {
    const std::int64_t two =
        std::min<std::int64_t>(2, move.count - done);  // 4-bit codes begin at even places
    std::span<std::byte> room = room_at(move.offset + done * size, two * size);
    const std::int64_t count = std::min(move.count - done, std::ssize(room) / (two * size) * two);
    room = room.first(static_cast<std::size_t>(count * size));
    source_.read(entry, {move.file + done, move.file + done + count}, room);
    staged_ += std::ssize(room);
    copied_bytes_ += std::ssize(room);
    done += count;
  }
}

/// Free end of the staging buffer for bytes at `offset` of the file, aligned to their elements and with room
/// for at least one. Staged bytes are written first unless these follow them.
std::span<std::byte> ExportWriter::room_at(std::int64_t offset, std::int64_t element_bytes) {
  const bool follows = offset == staged_at_ + staged_ && staged_ % element_bytes == 0;
  if (!follows || half_bytes() - staged_ < element_bytes) flush();
  if (staged_ == 0) staged_at_ = offset;
  return {half() + staged_, static_cast<std::size_t>(half_bytes() - staged_)};
}

void ExportWriter::flush() {
  if (staged_ == 0) return;
  emit_half({staged_at_, {half(), static_cast<std::size_t>(std::exchange(staged_, 0))}});
}

void ExportWriter::emit_half(const WrittenBlock& block) {
  emit(block);
  half_ = 1 - half_;
}

void ExportWriter::emit(const WrittenBlock& block) {
  position::begin("write", ++writes_);
  fault_point("export.write", values_.rank());
  written_bytes_ += std::ssize(block.data);
  if (options_.send) return send(block);
  if (!out_)
    out_.emplace(path_, WriteBehind::Target::kFoundFile, options_.keep_cached ? 0 : staging_.bytes());
  out_->write(block);
  options_.after_write();
}

void ExportWriter::send(const WrittenBlock& block) const {
  const std::size_t length = block.data.size() / static_cast<std::size_t>(block.lines);
  for (std::size_t line = 0; line < static_cast<std::size_t>(block.lines); ++line)
    options_.send(block.offset + static_cast<std::int64_t>(line) * block.stride,
                  block.data.subspan(line * length, length));
}

void ExportWriter::finish() {
  if (out_) out_->close();
  out_.reset();
}

}  // namespace sluice
