#include "shard/moves.hpp"

#include "base/boxes/box.hpp"

#include <algorithm>

namespace sluice {
namespace {

using Visit = std::function<void(const Move&)>;

void visit_runs(const ShardPlan& shards, int tensor, Range elements, std::optional<int> rank,
                const std::function<void(int rank, const ShardPlan::OwnedRun&)>& visit) {
  if (!rank) return shards.owned_runs(tensor, elements, visit);
  shards.owned_runs(tensor, elements, *rank, [&](const ShardPlan::OwnedRun& run) { visit(*rank, run); });
}

void visit_rows(const ShardPlan& shards, const FileRange& range, Range part, std::optional<int> rank,
                const Visit& visit) {
  const std::int64_t columns = range.stride == 0 ? std::max<std::int64_t>(range.count, 1) : range.columns;
  for (std::int64_t row = part.begin / columns; row * columns < part.end; ++row) {
    const Range inside = common(part, {row * columns, (row + 1) * columns});
    const std::int64_t to_tensor = range.begin + row * (range.stride - columns);
    visit_runs(shards, range.tensor, {to_tensor + inside.begin, to_tensor + inside.end}, rank,
               [&](int owner, const ShardPlan::OwnedRun& run) {
                 visit({owner, run.tensor_begin - to_tensor, run.arena_begin, run.count});
               });
  }
}

/// Visits the moves of elements [part.begin, part.end) of the matrix that begins at element `matrix` of the
/// range.
void visit_matrix(const ShardPlan& shards, const FileRange& range, std::int64_t matrix, Range part,
                  std::optional<int> only, const Visit& visit) {
  const auto wanted = boxes_of(part, range.columns);
  const std::int64_t begin = range.begin + matrix;
  const auto visit_run = [&](int rank, const ShardPlan::OwnedRun& run) {
    const std::int64_t from = run.tensor_begin - begin;
    for (const Box& owned : boxes_of({from, from + run.count}, range.rows))
      for (const Box& want : wanted) {
        // The box is in the file's rows and columns.
        const Box box{common(want.rows, owned.columns), common(want.columns, owned.rows)};
        if (box.is_empty()) continue;
        Move move{rank, matrix + box.rows.begin * range.columns + box.columns.begin,
                  run.arena_begin + box.columns.begin * range.rows + box.rows.begin - from,
                  box.rows.count() * box.columns.count()};
        move.lines = box.rows.count();
        move.line_stride = range.columns;
        move.matrix = matrix;
        if (owned.rows.count() > 1) {
          move.row_stride = range.rows;
          move.rows_begin = run.arena_begin + owned.rows.begin * range.rows - from;
        }
        visit(move);
      }
  };
  visit_runs(shards, range.tensor, {begin, begin + range.matrix()}, only, visit_run);
}

/// Visits the moves of a tensor [rows, planes, columns], line by line of the tensor.
void visit_planes(const ShardPlan& shards, const FileRange& range, std::int64_t matrix, Range part,
                  std::optional<int> only, const Visit& visit) {
  const std::int64_t width = range.planes * range.columns;
  for (const Box& box : boxes_of(part, width))
    for (std::int64_t at = box.columns.begin; !box.is_empty() && at < box.columns.end; ++at) {
      const std::int64_t plane = at / range.columns, column = at % range.columns;
      const std::int64_t line = range.begin + matrix + (column * range.planes + plane) * range.rows;
      visit_runs(
          shards, range.tensor, {line + box.rows.begin, line + box.rows.end}, only,
          [&](int rank, const ShardPlan::OwnedRun& run) {
            Move move{rank, matrix + (run.tensor_begin - line) * width + at, run.arena_begin, run.count};
            move.lines = run.count;
            move.line_stride = width;
            move.matrix = matrix;
            visit(move);
          });
    }
}

}  // namespace

void for_each_move(const ShardPlan& shards, const FileRange& range, Range part, std::optional<int> rank,
                   const Visit& visit) {
  if (range.rows == 0) return visit_rows(shards, range, part, rank, visit);
  const std::int64_t matrix = range.matrix();
  const auto visit_part = range.planes > 1 ? visit_planes : visit_matrix;
  for (std::int64_t first = part.begin / matrix * matrix; first < part.end; first += matrix)
    visit_part(shards, range, first,
               {std::max<std::int64_t>(part.begin - first, 0), std::min(part.end - first, matrix)}, rank,
               visit);
}

}  // namespace sluice
