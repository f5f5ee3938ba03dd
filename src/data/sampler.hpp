// Order of sequences: those of a step are a function of the step number alone, so any step can be resumed or
// repeated.
#pragma once

#include "config/choices.hpp"

#include <cstdint>
#include <vector>

namespace sluice {

/// Order of a source's sequences over steps and epochs.
class Sampler {
 public:
  /// `sequences`: number of sequences, at least 1.
  Sampler(std::int64_t sequences, DataOrder order, std::uint64_t seed);

  [[nodiscard]] std::int64_t sequences() const { return sequences_; }

  /// Numbers of the sequences at positions [begin, end) of an endless row of passes over all of them. Takes
  /// no memory beyond the result.
  [[nodiscard]] std::vector<std::int64_t> at(std::int64_t begin, std::int64_t end) const;

 private:
  std::int64_t sequences_;
  DataOrder order_;
  std::uint64_t seed_;
};

}  // namespace sluice
