#include "data/packed_window.hpp"

#include "base/checked.hpp"
#include "base/error.hpp"
#include "data/first_fit.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace sluice {
namespace {

/// Number of sequences that a document of `tokens` tokens fills alone.
std::int64_t full_sequences(std::int64_t tokens, const PackRules& rules) {
  if (tokens <= rules.sequence_length || rules.long_documents == LongDocuments::kLeaveOut) return 0;
  return rules.long_documents == LongDocuments::kCut ? 1 : (tokens - 1) / rules.sequence_length;
}

/// Number of tokens of a document that are packed beside others. A single token left by splitting was already
/// the target of the sequence before.
std::int64_t packed_tokens(std::int64_t tokens, const PackRules& rules) {
  if (tokens <= rules.sequence_length) return tokens;
  if (rules.long_documents != LongDocuments::kSplit) return 0;
  const std::int64_t rest = tokens - full_sequences(tokens, rules) * rules.sequence_length;
  return rest > 1 ? rest : 0;
}

Bins one_in_each_bin(std::size_t items) {
  Bins bins{std::vector<std::int32_t>(items), checked_cast<std::int32_t>(items)};
  std::iota(bins.bin_of.begin(), bins.bin_of.end(), 0);
  return bins;
}

}  // namespace

PackCounts& PackCounts::operator+=(const PackCounts& other) {
  documents += other.documents;
  long_documents += other.long_documents;
  left_out += other.left_out;
  inputs += other.inputs;
  return *this;
}

void count_document(std::int64_t tokens, const PackRules& rules, PackCounts& counts) {
  ++counts.documents;
  if (tokens > rules.sequence_length) ++counts.long_documents;
  counts.inputs += full_sequences(tokens, rules) * rules.sequence_length + packed_tokens(tokens, rules);
}

PackedWindow::PackedWindow(std::span<const TokenRange> documents, const PackRules& rules,
                           const RandomStream* shuffle)
    : length_(rules.sequence_length) {
  items_.reserve(documents.size());
  for (const TokenRange& document : documents) add(document, rules);
  std::vector<std::int32_t> sizes;
  sizes.reserve(items_.size());
  for (const TokenRange& item : items_) sizes.push_back(checked_cast<std::int32_t>(item.count));
  pack(sizes, rules, shuffle);
}

PackedWindow::PackedWindow(std::vector<PackedPair> pairs, const PackRules& rules, const RandomStream* shuffle)
    : length_(rules.sequence_length), pairs_(std::move(pairs)) {
  std::vector<std::int32_t> sizes;
  sizes.reserve(pairs_.size());
  for (const PackedPair& pair : pairs_) {
    ++counts_.documents;
    counts_.inputs += pair.chosen.count + pair.rejected.count;
    sizes.push_back(checked_cast<std::int32_t>(pair.chosen.count + pair.rejected.count));
  }
  pack(sizes, rules, shuffle);
}

/// Assigns items of these sizes to sequences.
void PackedWindow::pack(std::span<const std::int32_t> sizes, const PackRules& rules,
                        const RandomStream* shuffle) {
  const Bins bins = rules.is_alone ? one_in_each_bin(sizes.size())
                                   : first_fit_decreasing(sizes, checked_cast<std::int32_t>(length_));
  packed_ = bins.count;
  bin_begin_.assign(static_cast<std::size_t>(bins.count) + 1, 0);
  for (const std::int32_t bin : bins.bin_of) ++bin_begin_[static_cast<std::size_t>(bin) + 1];
  std::partial_sum(bin_begin_.begin(), bin_begin_.end(), bin_begin_.begin());
  std::vector<std::int32_t> next(bin_begin_.begin(), bin_begin_.end() - 1);
  by_bin_.resize(sizes.size());
  for (std::size_t item = 0; item < sizes.size(); ++item) {
    std::int32_t& place = next[static_cast<std::size_t>(bins.bin_of[item])];
    by_bin_[static_cast<std::size_t>(place++)] = static_cast<std::int32_t>(item);
  }
  if (shuffle == nullptr || sequences() == 0) return;
  shuffle_.emplace(sequences(), *shuffle);
}

void PackedWindow::add(const TokenRange& document, const PackRules& rules) {
  count_document(document.count, rules, counts_);
  const std::int64_t full = full_sequences(document.count, rules);
  const std::int64_t packed = packed_tokens(document.count, rules);
  if (full > 0) {
    full_runs_.push_back({{document.first, full * length_ + 1}, full_});
    full_ += full;
  }
  if (packed > 0) items_.push_back({document.first + full * length_, packed});
}

std::vector<TokenRange> PackedWindow::sequence(std::int64_t index) const {
  SLUICE_ASSERT(0 <= index && index < sequences(), "sequence {} of {}", index, sequences());
  std::vector<TokenRange> runs;
  for (const PackedPair& pair : pairs(index)) runs.insert(runs.end(), {pair.chosen, pair.rejected});
  if (!runs.empty()) return runs;
  if (shuffle_) index = (*shuffle_)(index);
  if (index >= packed_) return {full_sequence(index - packed_)};
  for (const std::int32_t item : items_of(index)) runs.push_back(items_[static_cast<std::size_t>(item)]);
  return runs;
}

std::vector<PackedPair> PackedWindow::pairs(std::int64_t index) const {
  if (pairs_.empty()) return {};
  std::vector<PackedPair> pairs;
  for (const std::int32_t item : items_of(shuffle_ ? (*shuffle_)(index) : index))
    pairs.push_back(pairs_[static_cast<std::size_t>(item)]);
  return pairs;
}

std::span<const std::int32_t> PackedWindow::items_of(std::int64_t index) const {
  const auto begin = static_cast<std::size_t>(bin_begin_[static_cast<std::size_t>(index)]);
  const auto end = static_cast<std::size_t>(bin_begin_[static_cast<std::size_t>(index) + 1]);
  return std::span(by_bin_).subspan(begin, end - begin);
}

TokenRange PackedWindow::full_sequence(std::int64_t index) const {
  const auto after = std::ranges::upper_bound(full_runs_, index, {}, &FullRange::before);
  const FullRange& run = *(after - 1);
  return {run.tokens.first + (index - run.before) * length_, length_ + 1};
}

std::vector<TokenRange> PackedWindow::runs() const {
  std::vector<TokenRange> runs = items_;
  for (const PackedPair& pair : pairs_) runs.insert(runs.end(), {pair.chosen, pair.rejected});
  for (const FullRange& full : full_runs_) runs.push_back(full.tokens);
  return runs;
}

}  // namespace sluice
