// Token ids looked at before the first step: one that the model does not know would end a job at the step
// that meets it.
#pragma once

#include "data/sampler.hpp"
#include "data/token_file.hpp"

#include <cstdint>

namespace sluice {

class IdCheck {
 public:
  /// Checks the sequences, of `length` tokens each, at the first `positions` of `sampler`; each sequence once if
  /// these cover all of them.
  IdCheck(const Sampler& sampler, std::int64_t positions, std::int64_t length);

  /// The work comes in pieces of at most 64 Mi tokens, so that whoever waits for it can be told between them.
  [[nodiscard]] std::int64_t pieces() const;

  /// Error(kBadData) for an id outside the vocabulary, naming its place. Reads the piece in the order of the
  /// file; holds 8 bytes for each of its sequences and 1 MiB of tokens.
  void run(const TokenFile& file, std::int64_t piece) const;

 private:
  Sampler sampler_;
  std::int64_t count_;  ///< positions of the sampler, or sequences of the file
  bool all_;
  std::int64_t piece_sequences_;
};

}  // namespace sluice
