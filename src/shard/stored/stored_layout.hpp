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
#include "encoding/coded_rows.hpp"
#include "shard/shard_plan.hpp"
#include "shard/stored/stored_tensors.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

class StoredLayout {
 public:
  /// Lays out the stored units as `rank` holds them; units of `elsewhere`, ascending, have no place among
  /// bytes(). `plan` must outlive the layout.
  StoredLayout(const ShardPlan& plan, const StoredTensors& tensors, int rank,
               std::span<const int> elsewhere = {});

  [[nodiscard]] const ShardPlan& plan() const { return plan_; }
  [[nodiscard]] int rank() const { return rank_; }
  /// Bytes of all stored shards of the rank, unit after unit; and the byte at which a unit's shard begins
  /// among them.
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] std::int64_t begin_of(int unit) const { return at(unit).begin; }
  /// Whether a unit has no place among bytes().
  [[nodiscard]] bool is_elsewhere(int unit) const { return at(unit).begin < 0; }
  /// Bytes of the rank's own shard, among the bytes of all ranks that hold the unit.
  [[nodiscard]] Range own_bytes(int unit) const { return at(unit).own; }
  /// Bytes of each rank that holds the same part of a unit, in rank order: the counts of a gather.
  [[nodiscard]] const std::vector<std::int64_t>& counts(int unit) const { return at(unit).counts; }
  [[nodiscard]] std::int64_t held_bytes(int unit) const;

  /// The part of one published matrix that the rank owns.
  struct OwnRun {
    int tensor = 0;  ///< index of the tensor in the manifest
    std::int64_t tensor_begin = 0;
    std::int64_t count = 0;
    const Encoding* encoding = nullptr;  ///< one of the encodings of this layout
    std::int64_t element = 0;            ///< number of the run's first element, as the encoding counts
    std::int64_t codes = 0, scales = 0;  ///< bytes of the shard at which the run's codes and its scales begin
    [[nodiscard]] Range scale_range() const { return encoding->scales_of({element, element + count}); }
  };
  /// Runs of a stored unit that the rank owns, in the order of the unit's elements.
  [[nodiscard]] std::vector<OwnRun> own_runs(int unit) const;

  /// Bytes of a unit; `first` is the number of the first one among the bytes of all ranks that hold the unit.
  template <class Byte>
  struct Bytes {
    Byte* data = nullptr;
    std::int64_t first = 0;
    [[nodiscard]] Byte* at(std::int64_t number) const { return data + (number - first); }
  };

  /// Writes `elements` of a unit's buffer as `to`, bfloat16 or float32: all of them must be held, and belong
  /// to one tensor, of fused experts to one expert. Several threads may call this at a time.
  void dequantise(int unit, Range elements, Bytes<const std::byte> bytes, DType to, std::byte* out) const;

  /// The rows that `elements` of a unit's buffer are, as memory holds them, in order; none if a row of `columns`
  /// elements is cut. Requirements as for dequantise(). The encodings are this layout's.
  [[nodiscard]] std::vector<CodedRows> coded_rows(int unit, Range elements, std::int64_t columns,
                                                  Bytes<const std::byte> bytes) const;

  /// The row of a stored matrix that holds an element of a unit's buffer, and the end of the rows that one
  /// rank has of the matrix, in elements of that buffer.
  struct RowPlace {
    Range row;
    std::int64_t end = 0;
  };
  [[nodiscard]] RowPlace row_at(int unit, std::int64_t element) const;

  /// Quantises the numbers of whole rows, of one matrix and one rank, to the nearest codes with their scales,
  /// and keeps them.
  void quantise(int unit, Range elements, const float* values, Bytes<std::byte> bytes) const;

  /// Keeps codes and scales from a file for elements that this rank owns: `codes` begins with the code of the
  /// first element, `scales` with the first scale of `encoding` that the elements need. `first_encoded` is
  /// the number of the first element for that encoding.
  void store(int unit, Range elements, std::int64_t first_encoded, const Encoding& encoding,
             const std::byte* codes, const std::byte* scales, Bytes<std::byte> bytes) const;

 private:
  struct Run {
    std::int64_t begin = 0;  ///< element of the unit's buffer at which the run begins
    std::int64_t count = 0;
    std::int64_t encoding = 0;
    std::int64_t element = 0;  ///< number of the run's first element, as the encoding counts
    int tensor = 0;            ///< index of the tensor in the manifest
    std::int64_t tensor_begin = 0;
    std::int64_t codes = 0;  ///< byte of the unit at which the run's codes begin
    std::int64_t scales = 0;
    [[nodiscard]] std::int64_t end() const { return begin + count; }
  };
  struct Unit {
    std::vector<Run> runs;  ///< runs of the unit, in the order of its buffer
    std::vector<std::int64_t> counts;
    Range own;
    std::int64_t begin = 0;  ///< byte at which the shard begins among bytes(); -1: the unit is elsewhere
  };
  /// Elements that a range of the unit and a run have in common, as the encoding numbers them.
  struct Common {
    Range elements;  ///< the common elements, of the unit's buffer
    Range encoded;
    std::int64_t codes = 0, scales = 0;  ///< bytes at which their codes and their scales begin
  };

  [[nodiscard]] const Unit& at(int unit) const { return units_[static_cast<std::size_t>(unit)]; }
  void add_runs(const StoredRange& range);
  void place(int unit, bool is_elsewhere);
  template <class Visit>
  void for_each_common(int unit, Range elements, Visit visit) const;

  const ShardPlan& plan_;
  int rank_;
  std::vector<Encoding> encodings_;
  std::vector<Unit> units_;  ///< every unit of the plan; those that are not stored have no runs
  std::int64_t bytes_ = 0;
};

}  // namespace sluice
