#include "data/token_check.hpp"

#include "base/round.hpp"

#include <algorithm>
#include <vector>

namespace sluice {
namespace {

std::int64_t sequences_of_piece(std::int64_t length, std::int64_t tokens) {
  constexpr std::int64_t kSequences = std::int64_t{1} << 17;
  return std::clamp<std::int64_t>(tokens / (length + 1), 1, kSequences);
}

}  // namespace

TokenCheck::TokenCheck(const Sampler& sampler, std::int64_t positions, std::int64_t length,
                       std::int64_t piece_tokens)
    : sampler_(sampler),
      count_(std::min(positions, sampler.sequences())),
      all_(positions >= sampler.sequences()),
      piece_sequences_(sequences_of_piece(length, piece_tokens)) {}

std::int64_t TokenCheck::pieces() const { return divide_up(count_, piece_sequences_); }

void TokenCheck::run(const TokenFile& file, std::int64_t piece, const CheckedRun& checked) {
  const std::int64_t begin = piece * piece_sequences_;
  const std::int64_t end = std::min(count_, begin + piece_sequences_);
  if (all_) return check(file, begin, end - begin, checked);
  std::vector<std::int64_t> sequences = sampler_.at(begin, end);
  std::ranges::sort(sequences);
  run_sorted(file, sequences, checked);
}

/// Consecutive sequences are read together.
void TokenCheck::run_sorted(const TokenFile& file, const std::vector<std::int64_t>& sequences,
                            const CheckedRun& checked) {
  for (auto first = sequences.begin(); first != sequences.end();) {
    const auto gap =
        std::adjacent_find(first, sequences.end(), [](std::int64_t a, std::int64_t b) { return a + 1 < b; });
    const auto end = gap == sequences.end() ? gap : gap + 1;
    check(file, *first, *(end - 1) + 1 - *first, checked);
    first = end;
  }
}

void TokenCheck::check(const TokenFile& file, std::int64_t first, std::int64_t count,
                       const CheckedRun& checked) {
  file.check_sequences(first, count, has_target_);
  if (!checked) return;
  const TokenRange begin = file.tokens_of(first), end = file.tokens_of(first + count - 1);
  checked({begin.first, end.first + end.count - begin.first});
}

PackedTokenCheck::PackedTokenCheck(const TokenFile& file, const Packer& packer, std::int64_t positions,
                                   std::int64_t piece_tokens)
    : file_(&file),
      packer_(&packer),
      positions_(positions),
      piece_tokens_(piece_tokens),
      file_pieces_(positions >= packer.least_sequences() ? divide_up(file.token_count(), piece_tokens) : 0) {}

void PackedTokenCheck::run(std::int64_t piece, const CheckedRun& checked) {
  if (piece < file_pieces_) {
    const std::int64_t first = piece * piece_tokens_;
    return check({first, std::min(piece_tokens_, file_->token_count() - first)}, checked);
  }
  const bool is_whole = file_pieces_ > 0;
  if (sequences_ >= positions_ || (is_whole && has_target_)) return;
  const PackedWindow window = packer_->window(piece - file_pieces_);
  look_for_target(window);
  sequences_ += window.sequences();
  if (is_whole) return;
  TokenRange joined;
  for (const TokenRange& run : window.runs()) {
    if (run.first == joined.first + joined.count) {
      joined.count += run.count;
      continue;
    }
    check(joined, checked);
    joined = run;
  }
  check(joined, checked);
}

void PackedTokenCheck::check(const TokenRange& run, const CheckedRun& checked) const {
  file_->check_run(run);
  if (checked) checked(run);
}

void PackedTokenCheck::look_for_target(const PackedWindow& window) {
  const std::int64_t end = std::min(window.sequences(), positions_ - sequences_);
  for (std::int64_t index = 0; index < end && !has_target_; ++index) {
    const std::vector<TokenRange> runs = window.sequence(index);
    has_target_ = std::ranges::any_of(runs, [&](const TokenRange& run) { return file_->has_target(run); });
  }
}

}  // namespace sluice
