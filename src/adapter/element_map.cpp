#include "adapter/element_map.hpp"

#include <algorithm>
#include <cstddef>

namespace sluice {

void for_each_piece(const ElementMap& map, std::int64_t room, const std::function<void(Range)>& visit) {
  const std::int64_t row = map.extent[1] * map.extent[2];
  const std::int64_t step = row < room && row > 0 ? room / row * row : room;
  for (std::int64_t begin = 0; begin < map.count(); begin += step)
    visit({begin, std::min(begin + step, map.count())});
}

OwnedElements::OwnedElements(const ShardPlan& shards, int tensor, int rank) {
  shards.owned_runs(tensor, rank, [&](const ShardPlan::OwnedRun& run) { runs_.push_back(run); });
}

/// Lines along the last dim of the file, or along another one where it is that one whose elements follow each other in the
/// tensor: runs are then as long as they can be, and neighbours in the arena.
void OwnedElements::for_each_run(const ElementMap& map, Range file,
                                 const std::function<void(const MappedRun&)>& visit) const {
  const std::int64_t row = map.extent[1] * map.extent[2];
  for (std::int64_t i = file.begin / std::max<std::int64_t>(row, 1); i * row < file.end; ++i) {
    const Range inside{std::max(file.begin - i * row, std::int64_t{0}), std::min(file.end - i * row, row)};
    const std::int64_t begin = map.begin + i * map.stride[0];
    const bool is_whole = inside.begin == 0 && inside.end == row;
    if (is_whole && map.stride[1] == 1) {
      for (std::int64_t k = 0; k < map.extent[2]; ++k)
        visit_line({0, i * row + k, map.extent[2], map.extent[1]}, begin + k * map.stride[2], 1, visit);
      continue;
    }
    for (std::int64_t j = inside.begin / map.extent[2]; j * map.extent[2] < inside.end; ++j) {
      const std::int64_t from = std::max(inside.begin - j * map.extent[2], std::int64_t{0});
      const std::int64_t to = std::min(inside.end - j * map.extent[2], map.extent[2]);
      visit_line({0, i * row + j * map.extent[2] + from, 1, to - from},
                 begin + j * map.stride[1] + from * map.stride[2], map.stride[2], visit);
    }
  }
}

/// `line` without its place in the arena; its elements are begin, begin + stride, ... of the tensor.
void OwnedElements::visit_line(const MappedRun& line, std::int64_t begin, std::int64_t stride,
                               const std::function<void(const MappedRun&)>& visit) const {
  for (std::int64_t done = 0; done < line.count;) {
    const std::int64_t element = begin + done * stride;
    // The last run that begins at or before the element.
    auto run = std::ranges::upper_bound(runs_, element, {}, &ShardPlan::OwnedRun::tensor_begin);
    if (run == runs_.begin() || element >= (run - 1)->tensor_begin + (run - 1)->count) {
      if (run == runs_.end()) return;  // nothing of the rest is owned
      done += (run->tensor_begin - element + stride - 1) / stride;
      continue;
    }
    --run;
    const std::int64_t left = run->tensor_begin + run->count - element;
    const std::int64_t count = stride == 1 ? std::min(line.count - done, left) : 1;
    visit({run->arena_begin + element - run->tensor_begin, line.file + done * line.file_stride,
           line.file_stride, count});
    done += count;
  }
}

}  // namespace sluice
