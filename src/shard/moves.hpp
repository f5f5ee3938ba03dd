// Moves: the elements of a tensor in a file and their places in the ranks' arenas, for loads and for exports.
// Pure.
#pragma once

#include "base/range.hpp"
#include "shard/shard_plan.hpp"

#include <cstdint>
#include <functional>
#include <optional>

namespace sluice {

/// `count` elements of a manifest tensor, from element `begin` on, as they lie in a file: in the same order;
/// or, where `rows` is given, as matrices of `rows` times `columns` elements, each the transpose of the
/// tensor's; or, with `planes` too, as [rows, planes, columns], which are [columns, planes, rows] in the
/// tensor; or, where `stride` is given, as rows of `columns` elements that begin `stride` elements apart in
/// the tensor.
struct FileRange {
  int tensor = 0;
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;
  std::int64_t planes = 1;
  [[nodiscard]] std::int64_t matrix() const { return rows * planes * columns; }
};

/// `count` elements from element `file` of a FileRange on, and from element `arena` of a rank's arena on.
///
/// Of transposed matrices a move is a box: `lines` lines of equal length that begin `line_stride` elements
/// apart in the file. Element j of line i is element arena + j * row_stride + i of the arena.
struct Move {
  int rank = 0;
  std::int64_t file = 0;
  std::int64_t arena = 0;
  std::int64_t count = 0;
  std::int64_t lines = 1;
  std::int64_t line_stride = 0;
  /// Elements from one row of the arena's matrix to the next; 0 where the rank has a single row or a part of
  /// one, so that lines have one element.
  std::int64_t row_stride = 0;
  /// Element of the arena at which the rank's rows of the matrix begin.
  std::int64_t rows_begin = 0;
  /// Element of the FileRange at which the matrix begins.
  std::int64_t matrix = 0;

  [[nodiscard]] bool is_box() const { return lines > 1 || row_stride > 0; }
  /// Number of elements in a line of the matrix.
  [[nodiscard]] std::int64_t length() const { return count / lines; }
};

/// Calls `visit` with the moves of elements `part` of the range in the file, of one rank or of all ranks, in
/// the order of the tensor. A move is as long as a rank's arena allows, and for matrices as the part's rows
/// and the ends of rows allow.
void for_each_move(const ShardPlan& shards, const FileRange& range, Range part, std::optional<int> rank,
                   const std::function<void(const Move&)>& visit);

}  // namespace sluice
