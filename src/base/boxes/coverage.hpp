// Proof that memory or files are written as they should be: every element once.
#pragma once

#include "base/boxes/box.hpp"
#include "base/range.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Gathers what is written to several places that are numbered: ranks' arenas, or files. Holds 24 bytes for each range
/// and 56 for each box.
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

  void add(int place, Range range) { ranges_.push_back({place, range}); }
  /// A box of a matrix whose rows have `width` elements, the first of them at element `origin` of the place.
  void add(int place, std::int64_t origin, std::int64_t width, const Box& box) {
    boxes_.push_back({place, origin, width, box});
  }

  /// Sorted, with neighbours that touch joined; nothing is left here. Boxes that lie below each other are joined, then those
  /// side by side, until they are whole rows. Error(kInternal) where two overlap, or boxes do not make up rows; it names
  /// `what` and "element 12 of " with `name_of` the place.
  [[nodiscard]] std::vector<Covered> joined(std::string_view what,
                                            const std::function<std::string(int place)>& name_of);

 private:
  struct PlacedBox {
    int place = 0;
    std::int64_t origin = 0;
    std::int64_t width = 0;
    Box box;
  };
  void join_below();
  void join_beside();

  std::vector<Covered> ranges_;
  std::vector<PlacedBox> boxes_;
};

}  // namespace sluice
