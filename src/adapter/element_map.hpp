// Where the elements of a tensor in a file lie in a tensor of the manifest, when the file has them in another order.
#pragma once

#include "base/range.hpp"
#include "shard/shard_plan.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

namespace sluice {

/// Element (i, j, k) of a file's [extent[0], extent[1], extent[2]], row-major, is element
/// begin + i stride[0] + j stride[1] + k stride[2] of the manifest's tensor. No two are the same one.
struct ElementMap {
  std::int64_t begin = 0;
  std::array<std::int64_t, 3> extent{1, 1, 1};
  std::array<std::int64_t, 3> stride{0, 0, 1};

  /// `count` elements in the same order in both.
  [[nodiscard]] static ElementMap straight(std::int64_t begin, std::int64_t count) {
    return {begin, {1, 1, count}, {0, 0, 1}};
  }
  [[nodiscard]] std::int64_t count() const { return extent[0] * extent[1] * extent[2]; }
};

/// Calls `visit` with all elements of the file's tensor, at most `room` of them at a time, in order. Whole [j, k] of each i
/// where they fit: then an expert's elements of a row are met together.
void for_each_piece(const ElementMap& map, std::int64_t room, const std::function<void(Range)>& visit);

/// `count` elements from `arena` on of a rank's arena, that are elements file, file + file_stride, ... of a file's tensor.
struct MappedRun {
  std::int64_t arena = 0;
  std::int64_t file = 0;
  std::int64_t file_stride = 1;
  std::int64_t count = 0;
};

/// What a rank owns of a tensor of the manifest, ready to be looked up.
class OwnedElements {
 public:
  OwnedElements(const ShardPlan& shards, int tensor, int rank);

  /// Calls `visit` with the runs that make up what the rank owns of elements [file.begin, file.end) of the file's tensor,
  /// each of them once, in an order that depends on the arguments alone.
  void for_each_run(const ElementMap& map, Range file,
                    const std::function<void(const MappedRun&)>& visit) const;

 private:
  void visit_line(const MappedRun& line, std::int64_t begin, std::int64_t stride,
                  const std::function<void(const MappedRun&)>& visit) const;

  std::vector<ShardPlan::OwnedRun> runs_;  ///< by tensor_begin
};

}  // namespace sluice
