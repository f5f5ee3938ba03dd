#include "data/packer.hpp"

#include "base/error.hpp"
#include "base/range.hpp"
#include "base/round.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace sluice {
namespace {

constexpr std::int64_t kAtOnce = 4096;

/// Calls `take` with numbers 0 to `count` - 1, some thousands at a time.
template <class Take>
void for_each_block(std::int64_t count, const Take& take) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t first = 0; first < count; first += kAtOnce) {
    numbers.resize(static_cast<std::size_t>(std::min(kAtOnce, count - first)));
    std::iota(numbers.begin(), numbers.end(), first);
    take(std::span<const std::int64_t>(numbers));
  }
}

void require_whole(const TokenFile& file, std::int64_t document, std::int64_t tokens,
                   const PackRules& rules) {
  if (rules.long_documents != LongDocuments::kSplit || tokens <= rules.sequence_length) return;
  fail(
      {ExitCode::kBadData, "data.long_document"},
      "document {} of {} has {} tokens, expected at most data.sequence_length = {}, because documents are read "
      "whole; data.long_documents = \"cut\" takes the beginning of such a document, \"leave_out\" leaves it out",
      document, file.name(), tokens, rules.sequence_length);
}

PackCounts count_documents(const TokenFile& file, const PackRules& rules, PackUnit unit) {
  const DocumentStarts& starts = file.packable_documents();
  PackCounts counts;
  for_each_block(starts.documents(), [&](std::span<const std::int64_t> documents) {
    const std::vector<TokenRange> runs = starts.runs(documents);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (unit == PackUnit::kDocument) require_whole(file, documents[i], runs[i].count, rules);
      count_document(runs[i].count, rules, counts);
    }
  });
  return counts;
}

}  // namespace

Packer::Packer(const TokenFile& file, const PackOptions& options, std::int64_t sequence_length,
               DataOrder order, std::uint64_t seed)
    : file_(&file),
      starts_(&file.packable_documents()),
      unit_(options.unit),
      rules_{sequence_length, options.long_documents, options.is_alone},
      order_(order),
      seed_(seed) {
  if (unit_ == PackUnit::kPair)
    count_pairs();
  else
    counts_ = count_documents(file, rules_, unit_);
  const std::int64_t documents = unit_ == PackUnit::kPair ? 2 : 1;  // of each item of a window
  windows_ = divide_up(counts_.documents, std::max<std::int64_t>(1, options.window / documents));
  if (counts_.inputs > 0) return;
  if (unit_ == PackUnit::kPair)
    fail(
        {ExitCode::kBadData, "data.pairs"},
        "{}: none of its {} pairs fits data.sequence_length = {} tokens, so that data.long_documents leaves all "
        "of them out",
        file.name(), counts_.documents, sequence_length);
  fail({ExitCode::kBadData, "data.token_file"},
       "{}: all of its {} documents have more than data.sequence_length = {} tokens, and "
       "data.long_documents = \"leave_out\" leaves out those",
       file.name(), counts_.documents, sequence_length);
}

void Packer::count_pairs() {
  if (!file_->masks_targets())
    fail(
        {ExitCode::kBadData, "data.token_file"},
        "{} has 'pairs' and no 'loss_mask', expected both, because the mask tells answers from prompts; sluice "
        "tokenize --pairs writes them",
        file_->name());
  for_each_block(std::ssize(file_->pairs()), [&](std::span<const std::int64_t> numbers) {
    for (PackedPair& pair : lengths_of(numbers)) {
      ++counts_.documents;
      if (pair.chosen.count + pair.rejected.count > rules_.sequence_length) ++counts_.long_documents;
      if (!fit(pair)) {
        ++counts_.left_out;
        continue;
      }
      require_targets(pair);
      counts_.inputs += pair.chosen.count + pair.rejected.count;
    }
  });
}

void Packer::require_targets(const PackedPair& pair) const {
  for (const TokenRange& document : {pair.chosen, pair.rejected})
    if (!file_->has_target(document))
      fail(
          {ExitCode::kBadData, "data.pairs"},
          "pairs[{}] of {}: the answer in tokens {} to {} has no target, expected one behind the first token, where "
          "the loss_mask is 1",
          pair.number, file_->name(), document.first, document.first + document.count - 1);
}

/// Whole documents of the given pairs.
std::vector<PackedPair> Packer::lengths_of(std::span<const std::int64_t> numbers) const {
  std::vector<std::int64_t> documents;
  for (const std::int64_t number : numbers)
    documents.insert(documents.end(), {file_->pair(number).chosen, file_->pair(number).rejected});
  std::ranges::sort(documents);
  documents.erase(std::unique(documents.begin(), documents.end()), documents.end());
  const std::vector<TokenRange> runs = starts_->runs(documents);
  const auto run_of = [&](std::int64_t document) {
    return runs[static_cast<std::size_t>(std::ranges::lower_bound(documents, document) - documents.begin())];
  };
  std::vector<PackedPair> pairs;
  for (const std::int64_t number : numbers)
    pairs.push_back({number, run_of(file_->pair(number).chosen), run_of(file_->pair(number).rejected)});
  return pairs;
}

/// Cuts a pair that is longer than a sequence, if the rules say so. False if it is left out.
bool Packer::fit(PackedPair& pair) const {
  const std::int64_t tokens = pair.chosen.count + pair.rejected.count;
  if (tokens <= rules_.sequence_length) return true;
  if (rules_.long_documents == LongDocuments::kSplit)
    fail(
        {ExitCode::kBadData, "data.pairs"},
        "pairs[{}] of {} has {} + {} tokens, expected at most data.sequence_length = {} together, because both "
        "answers lie in one sequence; data.long_documents = \"cut\" cuts ends of answers, \"leave_out\" leaves "
        "such pairs out",
        pair.number, file_->name(), pair.chosen.count, pair.rejected.count, rules_.sequence_length);
  return rules_.long_documents == LongDocuments::kCut && cut(pair);
}

/// Cuts ends of answers, the longer one first, so that the pair fits a sequence. False if the prompts leave no
/// room for a token of each answer.
bool Packer::cut(PackedPair& pair) const {
  const std::int64_t of_chosen = file_->tokens_before_target(pair.chosen);
  const std::int64_t of_rejected = file_->tokens_before_target(pair.rejected);
  const std::int64_t room = rules_.sequence_length - of_chosen - of_rejected;
  if (room < 2) return false;
  const std::int64_t chosen = pair.chosen.count - of_chosen, rejected = pair.rejected.count - of_rejected;
  // The shorter answer stays whole if it has at most half of the room.
  const std::int64_t kept = std::min(chosen, std::max((room + 1) / 2, room - rejected));
  pair.chosen.count = of_chosen + kept;
  pair.rejected.count = of_rejected + std::min(rejected, room - kept);
  return true;
}

std::int64_t Packer::least_sequences() const {
  return rules_.is_alone ? counts_.documents - counts_.left_out
                         : divide_up(counts_.inputs, rules_.sequence_length);
}

std::int64_t Packer::count_sequences() const {
  std::int64_t sequences = 0;
  for (std::int64_t number = 0; number < windows_; ++number) sequences += window(number).sequences();
  return sequences;
}

/// Packs documents, or pairs, with these numbers, which ascend.
PackedWindow Packer::pack(std::span<const std::int64_t> items, const RandomStream* shuffle) const {
  if (unit_ != PackUnit::kPair) return {starts_->runs(items), rules_, shuffle};
  std::vector<PackedPair> kept;
  for (PackedPair& pair : lengths_of(items))
    if (fit(pair)) kept.push_back(pair);
  return {std::move(kept), rules_, shuffle};
}

PackedWindow Packer::window(std::int64_t window) const {
  const std::int64_t epoch = window / windows_;
  const Range part = equal_part(counts_.documents, windows_, window % windows_);
  std::vector<std::int64_t> documents(static_cast<std::size_t>(part.count()));
  std::iota(documents.begin(), documents.end(), part.begin);
  if (order_ == DataOrder::kSequential) return pack(documents, nullptr);
  const Permutation permute(counts_.documents,
                            RandomStream(seed_, fmt::format("documents of epoch {}", epoch)));
  for (std::int64_t& document : documents) document = permute(document);
  std::ranges::sort(documents);
  const RandomStream shuffle(seed_, fmt::format("sequences of window {}", window));
  return pack(documents, &shuffle);
}

void Packer::enter(std::int64_t window, std::int64_t before) {
  window_ = this->window(window);
  number_ = window;
  before_ = before;
}

/// Moves on to the window of a sequence. Some windows may have no sequence, but not all of an epoch.
void Packer::step_to(std::int64_t number) {
  if (number_ < 0 || number < before_) enter(0, 0);
  while (number >= before_ + window_.sequences()) enter(number_ + 1, before_ + window_.sequences());
}

std::vector<TokenRange> Packer::sequence(std::int64_t number) {
  step_to(number);
  return window_.sequence(number - before_);
}

std::vector<PackedPair> Packer::pairs(std::int64_t number) {
  step_to(number);
  return window_.pairs(number - before_);
}

PackPosition Packer::position(std::int64_t given) const {
  if (number_ < 0 || given < before_) return {0, given};
  return {number_, given - before_};
}

void Packer::go_on(const PackPosition& position, std::int64_t given) {
  SLUICE_ASSERT(0 <= position.given && position.given <= given, "{} of {} sequences given", position.given,
                given);
  enter(position.window, given - position.given);
}

double Packer::epochs(std::int64_t given) {
  if (given == 0) return 0;
  step_to(given - 1);
  const double of_window = static_cast<double>(given - before_) / static_cast<double>(window_.sequences());
  const Range part = equal_part(counts_.documents, windows_, number_ % windows_);
  const double documents = static_cast<double>(part.begin) + of_window * static_cast<double>(part.count());
  const std::int64_t through = number_ / windows_;
  return static_cast<double>(through) + documents / static_cast<double>(counts_.documents);
}

}  // namespace sluice
