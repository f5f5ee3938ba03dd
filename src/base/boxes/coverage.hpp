// Proof that every element of memory, files or tensors is written exactly once.
#pragma once

#include "base/boxes/box.hpp"
#include "base/range.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Collects what is written to several numbered places, which are ranks' arenas, or files. Takes 24 bytes per
/// range and 56 per box.
class Coverage {
 public:
  /// Elements of one place.
  struct Covered {
    int place = 0;
    Range range;
    [[nodiscard]] bool operator==(const Covered& other) const {
      return place == other.place && range.begin == other.range.begin && range.end == other.range.end;
    }
  };

  /// Adds a range of a place. faults() reports the range's origin by the number `owner`.
  void add(int place, Range range, int owner = -1) { ranges_.push_back({place, owner, range}); }
  /// Adds a box of a matrix with rows of `width` elements, whose first element is element `origin` of the
  /// place.
  void add(int place, std::int64_t origin, std::int64_t width, const Box& box) {
    boxes_.push_back({place, origin, width, box});
  }

  /// Returns what was added, sorted and with adjacent ranges joined; nothing is left in the object. Boxes
  /// that lie below each other are joined, then those side by side, until they are whole rows.
  /// Error(kInternal) if two overlap, or if boxes do not make up rows; the message has `what` and "element 12
  /// of " with the place's `name_of`.
  [[nodiscard]] std::vector<Covered> joined(std::string_view what,
                                            const std::function<std::string(int place)>& name_of);

  /// A place whose elements [0, count) must all be written.
  struct Whole {
    int place = 0;
    std::int64_t count = 0;
  };
  /// Elements that are written by nobody, or by `owner` although `other` writes them too.
  struct Fault {
    int place = 0;
    Range elements;
    int owner = -1, other = -1;
    bool is_gap = false;
  };
  /// Faults of the ranges (there must be no boxes) if these places, ascending, must be whole; other places
  /// are ignored. Ordered by place, then by element.
  [[nodiscard]] std::vector<Fault> faults(std::span<const Whole> places);

 private:
  struct PlacedRange {
    int place = 0;
    int owner = -1;
    Range range;
  };
  struct PlacedBox {
    int place = 0;
    std::int64_t origin = 0;
    std::int64_t width = 0;
    Box box;
  };
  void join_below();
  void join_beside();

  void sort_ranges();

  std::vector<PlacedRange> ranges_;
  std::vector<PlacedBox> boxes_;
};

}  // namespace sluice
