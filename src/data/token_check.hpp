// Token ids and loss masks looked at before the first step: one that is wrong would end a job at the step
// that meets it, and without a target there is nothing to learn.
#pragma once

#include "data/packer.hpp"
#include "data/sampler.hpp"
#include "data/token_file.hpp"

#include <cstdint>

namespace sluice {

/// Checks the token ids and the mask of the sequences that a job will read.
class TokenCheck {
 public:
  /// Checks the sequences, of `length` tokens each, at the first `positions` of `sampler`; each sequence once
  /// if these cover all of them.
  TokenCheck(const Sampler& sampler, std::int64_t positions, std::int64_t length);

  /// The work comes in pieces of at most 64 Mi tokens, so that whoever waits for it can be told between them.
  [[nodiscard]] std::int64_t pieces() const;

  /// Error(kBadData) for an id outside the vocabulary, and for a value of the mask other than 0 and 1, naming
  /// its place. Reads the piece in the order of the file; holds 8 bytes for each of its sequences and 1 MiB
  /// of tokens.
  void run(const TokenFile& file, std::int64_t piece);

  /// Whether a token of the pieces so far is a target.
  [[nodiscard]] bool has_target() const { return has_target_; }

 private:
  void run_sorted(const TokenFile& file, const std::vector<std::int64_t>& sequences);

  Sampler sampler_;
  std::int64_t count_;  ///< positions of the sampler, or sequences of the file
  bool all_;
  std::int64_t piece_sequences_;
  bool has_target_ = false;
};

/// Checks the token ids and masks of packed documents, as TokenCheck does of sequences.
class PackedTokenCheck {
 public:
  /// Checks the documents of the windows that the first `positions` sequences come from, or all of the file
  /// if these are an epoch; looks for a target in those sequences. Both must outlive this.
  PackedTokenCheck(const TokenFile& file, const Packer& packer, std::int64_t positions);

  [[nodiscard]] std::int64_t pieces() const { return file_pieces_ + packer_->windows(); }
  /// Error(kBadData) as TokenCheck::run(). Each piece once, in ascending order.
  void run(std::int64_t piece);
  /// Whether a token of the pieces so far is a target.
  [[nodiscard]] bool has_target() const { return has_target_; }

 private:
  void look_for_target(const PackedWindow& window);

  const TokenFile* file_;
  const Packer* packer_;
  std::int64_t positions_;
  std::int64_t file_pieces_;    ///< pieces of the whole file, if that is read; windows follow
  std::int64_t sequences_ = 0;  ///< sequences in the windows so far
  bool has_target_ = false;
};

}  // namespace sluice
