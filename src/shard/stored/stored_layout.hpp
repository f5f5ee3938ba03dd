// Where codes and scales of stored units lie in memory, and the numbers that they stand for. Pure but for the
// bytes that it is given.
//
//   unit      | rank 0's shard          | rank 1's shard          |      bytes of the ranks that hold it, one after the other
//   shard     | codes | scales | codes | scales | ...                   run by run, in the order of the unit's elements
//
// A run is what one rank owns of one published matrix. Its codes keep the published order; its scales are all
// that its elements need, so that a scale whose elements two ranks share lies at both.
#pragma once

#include "base/dtype.hpp"
#include "shard/shard_plan.hpp"
#include "shard/stored/stored_tensors.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

class StoredLayout {
 public:
  /// The stored units as `rank` holds them; those of `elsewhere`, ascending, have no place among bytes().
  /// `plan` must outlive the layout.
  StoredLayout(const ShardPlan& plan, const StoredTensors& tensors, int rank,
               std::span<const int> elsewhere = {});

  [[nodiscard]] const ShardPlan& plan() const { return plan_; }
  [[nodiscard]] int rank() const { return rank_; }
  /// Bytes of all shards of the rank, unit after unit; and where that of a unit begins among them.
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] std::int64_t begin_of(int unit) const { return at(unit).begin; }
  /// Whether a unit has no place there.
  [[nodiscard]] bool is_elsewhere(int unit) const { return at(unit).begin < 0; }
  /// The rank's own shard, among the bytes of all that hold the unit.
  [[nodiscard]] Range own_bytes(int unit) const { return at(unit).own; }
  /// Bytes of each rank that holds what this one does, in rank order: the counts of a gather.
  [[nodiscard]] const std::vector<std::int64_t>& counts(int unit) const { return at(unit).counts; }
  [[nodiscard]] std::int64_t held_bytes(int unit) const;

  /// What the rank owns of one published matrix.
  struct OwnRun {
    int tensor = 0;  ///< index in the manifest
    std::int64_t tensor_begin = 0;
    std::int64_t count = 0;
    const Encoding* encoding = nullptr;  ///< one of the encodings of this layout
    std::int64_t element = 0;            ///< number of the first element for the encoding
    std::int64_t codes = 0, scales = 0;  ///< bytes of the shard at which codes and scales begin
    [[nodiscard]] Range scale_range() const { return encoding->scales_of({element, element + count}); }
  };
  /// Runs of a stored unit that the rank owns, in the order of the unit's elements.
  [[nodiscard]] std::vector<OwnRun> own_runs(int unit) const;

  /// Bytes of a unit, the first of which has the number `first` among those of all that hold it.
  template <class Byte>
  struct Bytes {
    Byte* data = nullptr;
    std::int64_t first = 0;
    [[nodiscard]] Byte* at(std::int64_t number) const { return data + (number - first); }
  };

  /// Writes `elements` of a unit's buffer as `to`, bfloat16 or float32: all of them must be held, and belong
  /// to one tensor, of fused experts to one expert. Several threads may call this at a time.
  void dequantise(int unit, Range elements, Bytes<const std::byte> bytes, DType to, std::byte* out) const;

  /// The row of a stored matrix that holds an element of a unit's buffer, and where the rows end that one
  /// rank has of the matrix: elements of that buffer.
  struct RowPlace {
    Range row;
    std::int64_t end = 0;
  };
  [[nodiscard]] RowPlace row_at(int unit, std::int64_t element) const;

  /// Keeps numbers of whole rows, of one matrix and one rank, as the nearest codes with their scales.
  void quantise(int unit, Range elements, const float* values, Bytes<std::byte> bytes) const;

  /// Keeps the codes and scales of elements that this rank owns, as they come from a file: `codes` is that of
  /// the first one, `scales` the first of `encoding`'s scales that they need. `first_encoded` numbers the
  /// first one for that encoding.
  void store(int unit, Range elements, std::int64_t first_encoded, const Encoding& encoding,
             const std::byte* codes, const std::byte* scales, Bytes<std::byte> bytes) const;

 private:
  struct Run {
    std::int64_t begin = 0;  ///< first of its elements in the unit's buffer
    std::int64_t count = 0;
    std::int64_t encoding = 0;
    std::int64_t element = 0;  ///< number of the first one for the encoding
    int tensor = 0;            ///< index in the manifest
    std::int64_t tensor_begin = 0;
    std::int64_t codes = 0;  ///< number of its first byte in the unit
    std::int64_t scales = 0;
    [[nodiscard]] std::int64_t end() const { return begin + count; }
  };
  struct Unit {
    std::vector<Run> runs;  ///< runs, in the order of the unit's buffer
    std::vector<std::int64_t> counts;
    Range own;
    std::int64_t begin = 0;  ///< first byte of the shard among bytes(); -1: the unit is elsewhere
  };
  /// What elements of the unit and a run have in common, as the encoding numbers them.
  struct Common {
    Range elements;  ///< elements of the unit's buffer
    Range encoded;
    std::int64_t codes = 0, scales = 0;  ///< numbers of their first bytes
  };

  [[nodiscard]] const Unit& at(int unit) const { return units_[static_cast<std::size_t>(unit)]; }
  void add_runs(const StoredRange& range);
  void place(int unit, bool is_elsewhere);
  template <class Visit>
  void for_each_common(int unit, Range elements, Visit visit) const;

  const ShardPlan& plan_;
  int rank_;
  std::vector<Encoding> encodings_;
  std::vector<Unit> units_;  ///< units of the plan, without runs where they are not stored
  std::int64_t bytes_ = 0;
};

}  // namespace sluice
