// Token ids looked at before the first step: one that the model does not know would end a job at the step
// that meets it.
#pragma once

#include "data/packer.hpp"
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

/// The same for packed documents.
class PackedIdCheck {
 public:
  /// Checks the documents of the windows that the first `positions` sequences come from, or all of the file if these are an
  /// epoch. Both must outlive this.
  PackedIdCheck(const TokenFile& file, const Packer& packer, std::int64_t positions);

  [[nodiscard]] std::int64_t pieces() const;
  /// Error(kBadData) as IdCheck::run(). Each piece once, in ascending order.
  void run(std::int64_t piece);

 private:
  const TokenFile* file_;
  const Packer* packer_;
  std::int64_t positions_;
  bool all_;
  std::int64_t sequences_ = 0;  ///< of the windows so far
};

}  // namespace sluice
