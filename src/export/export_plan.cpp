#include "export/export_plan.hpp"

#include "base/boxes/coverage.hpp"
#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/round.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace sluice {
namespace {

/// Least bytes per part in which copied tensors are divided among the ranks.
constexpr std::int64_t kMinCopyBytes = kMiB;

std::vector<SafetensorsEntry> entries_of(const ExportContent& content) {
  std::vector<SafetensorsEntry> entries;
  for (const ExportTensor& tensor : content.tensors)
    entries.push_back({tensor.name, tensor.dtype, tensor.target.shape, 0, 0});
  return entries;
}

/// Adds the bytes of a move to those that are written.
void add(Coverage& written, int file, const ExportMove& move) {
  if (!move.is_box()) return written.add(file, Range{move.offset, move.offset + move.bytes()});
  const std::int64_t size = size_of(move.dtype), inside = move.file - move.matrix;
  const std::int64_t line = inside / move.line_stride, column = inside % move.line_stride;
  written.add(file, move.offset - inside * size, move.line_stride * size,
              {{line, line + move.lines}, {column * size, (column + move.length()) * size}});
}

}  // namespace

ExportPlan::ExportPlan(const ExportContent& content, const ShardPlan& shards, std::int64_t max_shard_bytes,
                       std::vector<int> copiers)
    : shards_(shards),
      copiers_(std::move(copiers)),
      source_(content.source),
      files_(cut_into_files(entries_of(content), max_shard_bytes)),
      quantised_(content.quantised) {
  SLUICE_ASSERT(!copiers_.empty(), "no rank reads the source");
  for (const ExportTensor& tensor : content.tensors)
    tensors_.push_back({tensor.target, tensor.source, tensor.part, tensor.weight});
  std::size_t first = 0;
  for (const WeightFile& file : files_) first_.push_back(std::exchange(first, first + file.tensors.size()));
}

void ExportPlan::for_each_move_to(int file, int rank,
                                  const std::function<void(const ExportMove&)>& visit) const {
  const std::vector<SafetensorsEntry>& entries = files_[static_cast<std::size_t>(file)].tensors;
  const std::size_t first = first_[static_cast<std::size_t>(file)];
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Origin& origin = tensors_[first + i];
    if (entries[i].bytes == 0) continue;
    if (origin.source >= 0)
      visit_copied(entries[i], origin, first + i, rank, visit);
    else if (origin.weight >= 0)
      visit_quantised(entries[i], origin, rank, visit);
    else
      visit_owned(entries[i], origin.target, rank, visit);
  }
}

std::vector<int> ExportPlan::quantised_in(int file) const {
  const auto number = static_cast<std::size_t>(file);
  std::set<int> weights;
  for (std::size_t i = 0; i < files_[number].tensors.size(); ++i)
    if (const int weight = tensors_[first_[number] + i].weight; weight >= 0) weights.insert(weight);
  return {weights.begin(), weights.end()};
}

/// Visits the scales, which rank 0 writes because they are few, and the codes.
void ExportPlan::visit_quantised(const SafetensorsEntry& entry, const Origin& origin, int rank,
                                 const std::function<void(const ExportMove&)>& visit) const {
  const QuantisedWeight& weight = quantised_[static_cast<std::size_t>(origin.weight)];
  ExportMove move{{.count = weight.encoding.scale_count}, entry.begin, entry.dtype};
  move.weight = origin.weight;
  move.part = origin.part;
  if (origin.part == StoredPart::kCodes)
    return for_each_owned(weight, rank, [&](const ExportMove& owned) {
      static_cast<Move&>(move) = owned;
      move.offset = entry.begin + owned.file * size_of(entry.dtype);
      visit(move);
    });
  if (rank == 0) visit(move);
}

void ExportPlan::for_each_owned(const QuantisedWeight& weight, int rank,
                                const std::function<void(const ExportMove&)>& visit) const {
  SafetensorsEntry codes;
  codes.dtype = DType::kFloat8E4M3;
  visit_owned(codes, weight.target, rank, [&](ExportMove move) {
    move.file = move.offset;
    visit(move);
  });
}

void ExportPlan::visit_owned(const SafetensorsEntry& entry, const KeyTarget& target, int rank,
                             const std::function<void(const ExportMove&)>& visit) const {
  if (const BufferPlace* buffer = shards_.layouts().buffer_of(target.tensor())) {
    if (rank == 0)
      visit({{.arena = buffer->offset, .count = buffer->count},
             entry.begin,
             entry.dtype,
             -1,
             /*is_buffer=*/true});
    return;
  }
  const std::int64_t size = size_of(entry.dtype);
  std::int64_t offset = entry.begin;
  for (const TensorRange& part : target.ranges) {
    FileRange range{part.tensor, part.begin, part.count};
    if (target.is_transposed) {
      range.rows = target.shape[1];
      range.columns = target.shape[2];
    }
    for_each_move(shards_, range, {0, part.count}, rank, [&](const Move& move) {
      visit({move, offset + move.file * size, entry.dtype});
    });
    offset += part.count * size;
  }
}

/// Divides copied tensors among the copiers: large ones in equal parts, of whole bytes of 4-bit codes; small
/// ones whole, in turn.
void ExportPlan::visit_copied(const SafetensorsEntry& entry, const Origin& origin, std::size_t index,
                              int rank, const std::function<void(const ExportMove&)>& visit) const {
  const auto ranks = static_cast<std::int64_t>(copiers_.size());
  const std::int64_t size = size_of(entry.dtype), count = entry.bytes / size;
  const std::int64_t part =
      round_up(std::max(divide_up(count, ranks), kMinCopyBytes / size), std::int64_t{2});
  std::size_t turn = index;
  for (std::int64_t begin = 0; begin < count; begin += part, ++turn) {
    if (copiers_[turn % copiers_.size()] != rank) continue;
    visit({{.rank = rank, .file = begin, .count = std::min(part, count - begin)},
           entry.begin + begin * size,
           entry.dtype,
           origin.source});
  }
}

void ExportPlan::check_coverage() const {
  for (int file = 0; file < static_cast<int>(files_.size()); ++file) {
    const WeightFile& layout = files_[static_cast<std::size_t>(file)];
    Coverage written;
    written.add(file, Range{0, layout.header_bytes});
    for (int rank = 0; rank < shards_.world(); ++rank)
      for_each_move_to(file, rank, [&](const ExportMove& move) { add(written, file, move); });
    const std::vector<Coverage::Covered> have =
        written.joined("export plan", [&](int) { return layout.name; });
    SLUICE_ASSERT(have.size() == 1 && have.front().range.end == layout.bytes,
                  "export plan: {} is written up to byte {} of {}", layout.name, have.front().range.end,
                  layout.bytes);
  }
}

std::int64_t ExportPlan::file_bytes() const {
  std::int64_t bytes = 0;
  for (const WeightFile& file : files_) bytes += file.bytes;
  return bytes;
}

std::int64_t ExportPlan::tensor_bytes() const {
  std::int64_t bytes = 0;
  for (const WeightFile& file : files_) bytes += file.bytes - file.header_bytes;
  return bytes;
}

std::int64_t ExportPlan::copied_bytes() const {
  std::int64_t bytes = 0;
  for (std::size_t file = 0; file < files_.size(); ++file)
    for (std::size_t i = 0; i < files_[file].tensors.size(); ++i)
      if (tensors_[first_[file] + i].source >= 0) bytes += files_[file].tensors[i].bytes;
  return bytes;
}

}  // namespace sluice
