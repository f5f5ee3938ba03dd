// Check of token ids and loss masks before the first step: a wrong one would end a job at the step that reads
// it, and without a target there is nothing to learn.
#pragma once

#include "data/packer.hpp"
#include "data/sampler.hpp"
#include "data/token_file.hpp"

#include <cstdint>
#include <functional>

namespace sluice {

/// Takes a run of tokens that were checked, for what else is to be checked of them.
using CheckedRun = std::function<void(const TokenRange& run)>;
/// Most tokens of a piece of a check.
inline constexpr std::int64_t kCheckedPieceTokens = std::int64_t{1} << 26;

/// Checks the token ids and the mask of the sequences that a job will read.
class TokenCheck {
 public:
  /// Checks the sequences, of `length` tokens each, at the first `positions` positions of `sampler`; each
  /// sequence once if that covers all of them.
  TokenCheck(const Sampler& sampler, std::int64_t positions, std::int64_t length,
             std::int64_t piece_tokens = kCheckedPieceTokens);

  /// Number of pieces of the check, each of at most `piece_tokens` tokens or one sequence, between which other ranks
  /// can be told of progress.
  [[nodiscard]] std::int64_t pieces() const;

  /// Checks a piece. Error(kBadData) with the place of an id outside the vocabulary, or a mask value other
  /// than 0 and 1. Reads in the order of the file; holds 8 bytes per sequence of the piece and 1 MiB of
  /// tokens. Calls `checked`, if there is one, with the runs of tokens that it has read.
  void run(const TokenFile& file, std::int64_t piece, const CheckedRun& checked = {});

  /// Whether a token of the pieces so far is a target.
  [[nodiscard]] bool has_target() const { return has_target_; }

 private:
  void run_sorted(const TokenFile& file, const std::vector<std::int64_t>& sequences,
                  const CheckedRun& checked);
  void check(const TokenFile& file, std::int64_t first, std::int64_t count, const CheckedRun& checked);

  Sampler sampler_;
  std::int64_t count_;  ///< number of positions of the sampler, or of sequences of the file
  bool all_;
  std::int64_t piece_sequences_;
  bool has_target_ = false;
};

/// Checks the token ids and masks of packed documents, as TokenCheck does of sequences.
class PackedTokenCheck {
 public:
  /// Checks the documents of the windows from which the first `positions` sequences come, or the whole file
  /// if these are an epoch; looks for a target in those sequences. `file` and `packer` must outlive this
  /// object.
  PackedTokenCheck(const TokenFile& file, const Packer& packer, std::int64_t positions,
                   std::int64_t piece_tokens = kCheckedPieceTokens);

  [[nodiscard]] std::int64_t pieces() const { return file_pieces_ + packer_->windows(); }
  /// Checks a piece; each once, in ascending order. Error(kBadData) as TokenCheck::run().
  void run(std::int64_t piece, const CheckedRun& checked = {});
  /// Whether a token of the pieces so far is a target.
  [[nodiscard]] bool has_target() const { return has_target_; }

 private:
  void look_for_target(const PackedWindow& window);
  void check(const TokenRange& run, const CheckedRun& checked) const;

  const TokenFile* file_;
  const Packer* packer_;
  std::int64_t positions_;
  std::int64_t piece_tokens_;
  std::int64_t file_pieces_;    ///< number of pieces of the whole file, if that is read; windows follow
  std::int64_t sequences_ = 0;  ///< number of sequences in the windows so far
  bool has_target_ = false;
};

}  // namespace sluice
