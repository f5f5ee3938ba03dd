// Which sequences a step trains on: a function of the step number alone, so any step can be resumed or
// repeated.
#pragma once

#include "config/choices.hpp"

#include <cstdint>
#include <vector>

namespace sluice {

class Sampler {
 public:
  /// `sequences` and `batch_sequences` are positive.
  Sampler(std::int64_t sequences, std::int64_t batch_sequences, DataOrder order, std::uint64_t seed);

  [[nodiscard]] std::int64_t sequences() const { return sequences_; }
  [[nodiscard]] std::int64_t batch_sequences() const { return batch_sequences_; }

  /// Sequence numbers at positions [begin, end) of an endless row of passes over all sequences. No memory
  /// beyond the result, whatever the number of sequences.
  [[nodiscard]] std::vector<std::int64_t> at(std::int64_t begin, std::int64_t end) const;

  /// Those of the global batch of `step` (from 0): positions s B .. s B + B - 1.
  [[nodiscard]] std::vector<std::int64_t> batch(std::int64_t step) const {
    return at(step * batch_sequences_, (step + 1) * batch_sequences_);
  }

 private:
  std::int64_t sequences_;
  std::int64_t batch_sequences_;
  DataOrder order_;
  std::uint64_t seed_;
};

}  // namespace sluice
