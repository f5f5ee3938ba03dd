// Mixture of sources: the sequences that a step trains on, a function of the step number alone, as with
// Sampler.
#pragma once

#include "base/random.hpp"
#include "config/choices.hpp"
#include "data/sampler.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// Seed of a source's own order; for the first source `seed` itself.
[[nodiscard]] std::uint64_t seed_of_source(std::uint64_t seed, std::size_t source);

/// The n-th sequence that a source gives, from 0, has the time (n + u) / weight, with u in [0, 1) drawn by
/// seed, source and n; all sources' sequences follow each other in the order of their times. So up to any
/// position each source has its share to within a sequence for each source, its next sequence is found by
/// counting, and no table is kept.
class Mixture {
 public:
  struct Source {
    std::int64_t sequences;   ///< sequences in the source, at least 1
    double weight;            ///< weight of the source, positive
    bool is_endless = false;  ///< whether sequence numbers have no end, as in packed sources
  };
  /// A sequence of a source.
  struct Place {
    std::size_t source;
    std::int64_t sequence;
    bool operator==(const Place&) const = default;
  };

  /// Requires at least one source. Each source's order is that of a Sampler; the first one has `seed` itself,
  /// so that a mixture of one source equals that source.
  Mixture(std::vector<Source> sources, std::int64_t batch_sequences, DataOrder order, std::uint64_t seed);

  /// Sequences at positions [begin, end) of the endless order.
  [[nodiscard]] std::vector<Place> at(std::int64_t begin, std::int64_t end) const;
  /// Sequences of the global batch of `step`, which counts from 0.
  [[nodiscard]] std::vector<Place> batch(std::int64_t step) const;

  /// Number of each source's sequences before a position of the mixture.
  [[nodiscard]] std::vector<std::int64_t> taken(std::int64_t position) const;

  [[nodiscard]] const Sampler& sampler(std::size_t source) const { return samplers_[source]; }
  /// Number of sequences of all sources together.
  [[nodiscard]] std::int64_t sequences() const;

 private:
  /// Turn of a source: its n-th sequence, and the time of it.
  struct Turn {
    double time;
    std::size_t source;
    std::int64_t number;
  };
  [[nodiscard]] double time_of(std::size_t source, std::int64_t number) const;
  [[nodiscard]] std::int64_t first_from(std::size_t source, double time) const;
  /// Turns that cover positions [begin, end), in order; `first` becomes the position of the first one.
  [[nodiscard]] std::vector<Turn> turns(std::int64_t begin, std::int64_t end, std::int64_t& first) const;

  std::vector<Source> sources_;
  std::int64_t batch_sequences_;
  double all_weights_ = 0;
  std::vector<Sampler> samplers_;        ///< sampler of each source, in the order of fractions_
  std::vector<RandomStream> fractions_;  ///< number u of each sequence, as a random stream per source
};

}  // namespace sluice
