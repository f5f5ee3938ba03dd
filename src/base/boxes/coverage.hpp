// Proof that memory, files or tensors are filled as they should be: every element once.
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

/// Gathers what is written to several places that are numbered: ranks' arenas, or files. Holds 24 bytes for
/// each range and 56 for each box.
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

  /// `owner` is a number by which fault() tells what the range came from.
  void add(int place, Range range, int owner = -1) { ranges_.push_back({place, owner, range}); }
  /// A box of a matrix whose rows have `width` elements, the first of them at element `origin` of the place.
  void add(int place, std::int64_t origin, std::int64_t width, const Box& box) {
    boxes_.push_back({place, origin, width, box});
  }

  /// Sorted, with neighbours that touch joined; nothing is left here. Boxes that lie below each other are
  /// joined, then those side by side, until they are whole rows. Error(kInternal) where two overlap, or boxes
  /// do not make up rows; it names `what` and "element 12 of " with `name_of` the place.
  [[nodiscard]] std::vector<Covered> joined(std::string_view what,
                                            const std::function<std::string(int place)>& name_of);

  /// A place that should have elements [0, count).
  struct Whole {
    int place = 0;
    std::int64_t count = 0;
  };
  /// Elements that nobody holds, or that `owner` holds although `other` does.
  struct Fault {
    int place = 0;
    Range elements;
    int owner = -1, other = -1;
    bool is_gap = false;
  };
  /// What is wrong with ranges without boxes, if these places, in ascending order, are to be whole; other
  /// places do not matter. By place, then by element.
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
