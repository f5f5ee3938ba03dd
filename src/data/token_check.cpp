#include "data/id_check.hpp"

#include "base/round.hpp"

#include <algorithm>
#include <vector>

namespace sluice {
namespace {

constexpr std::int64_t kPieceTokens = std::int64_t{1} << 26;

std::int64_t sequences_of_piece(std::int64_t length) {
  constexpr std::int64_t kSequences = std::int64_t{1} << 17;
  return std::clamp<std::int64_t>(kPieceTokens / (length + 1), 1, kSequences);
}

/// Neighbours are read together.
void check_runs(const TokenFile& file, const std::vector<std::int64_t>& sorted) {
  for (auto first = sorted.begin(); first != sorted.end();) {
    const auto gap =
        std::adjacent_find(first, sorted.end(), [](std::int64_t a, std::int64_t b) { return a + 1 < b; });
    const auto end = gap == sorted.end() ? gap : gap + 1;
    file.check_ids(*first, *(end - 1) + 1 - *first);
    first = end;
  }
}

}  // namespace

IdCheck::IdCheck(const Sampler& sampler, std::int64_t positions, std::int64_t length)
    : sampler_(sampler),
      count_(std::min(positions, sampler.sequences())),
      all_(positions >= sampler.sequences()),
      piece_sequences_(sequences_of_piece(length)) {}

std::int64_t IdCheck::pieces() const { return divide_up(count_, piece_sequences_); }

void IdCheck::run(const TokenFile& file, std::int64_t piece) const {
  const std::int64_t begin = piece * piece_sequences_;
  const std::int64_t end = std::min(count_, begin + piece_sequences_);
  if (all_) return file.check_ids(begin, end - begin);
  std::vector<std::int64_t> sequences = sampler_.at(begin, end);
  std::ranges::sort(sequences);
  check_runs(file, sequences);
}

PackedIdCheck::PackedIdCheck(const TokenFile& file, const Packer& packer, std::int64_t positions)
    : file_(&file), packer_(&packer), positions_(positions), all_(positions >= packer.least_sequences()) {}

std::int64_t PackedIdCheck::pieces() const {
  return all_ ? divide_up(file_->token_count(), kPieceTokens) : packer_->windows();
}

void PackedIdCheck::run(std::int64_t piece) {
  if (all_) {
    const std::int64_t first = piece * kPieceTokens;
    return file_->check_run({first, std::min(kPieceTokens, file_->token_count() - first)});
  }
  if (sequences_ >= positions_) return;
  const PackedWindow window = packer_->window(piece);
  sequences_ += window.sequences();
  TokenRun joined;
  for (const TokenRun& run : window.runs()) {
    if (run.first == joined.first + joined.count) {
      joined.count += run.count;
      continue;
    }
    file_->check_run(joined);
    joined = run;
  }
  file_->check_run(joined);
}

}  // namespace sluice
