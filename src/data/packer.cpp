#include "data/packer.hpp"

#include "base/error.hpp"
#include "base/range.hpp"
#include "base/round.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace sluice {
namespace {

PackCounts count_documents(const DocumentStarts& starts, const PackRules& rules) {
  constexpr std::int64_t kAtOnce = 4096;
  PackCounts counts;
  std::vector<std::int64_t> documents;
  for (std::int64_t first = 0; first < starts.documents(); first += kAtOnce) {
    documents.resize(static_cast<std::size_t>(std::min(kAtOnce, starts.documents() - first)));
    std::iota(documents.begin(), documents.end(), first);
    for (const TokenRange& document : starts.runs(documents)) count_document(document.count, rules, counts);
  }
  return counts;
}

}  // namespace

Packer::Packer(const TokenFile& file, const PackOptions& options, std::int64_t sequence_length,
               DataOrder order, std::uint64_t seed)
    : starts_(&file.packable_documents()),
      rules_{sequence_length, options.long_documents},
      order_(order),
      seed_(seed),
      counts_(count_documents(*starts_, rules_)),
      windows_(divide_up(counts_.documents, options.window)) {
  if (counts_.inputs == 0)
    fail({ExitCode::kBadData, "data.token_file"},
         "{}: all of its {} documents have more than data.sequence_length = {} tokens, and "
         "data.long_documents = \"leave_out\" leaves out those",
         file.name(), counts_.documents, sequence_length);
}

std::int64_t Packer::least_sequences() const { return divide_up(counts_.inputs, rules_.sequence_length); }

PackedWindow Packer::window(std::int64_t window) const {
  const std::int64_t epoch = window / windows_;
  const Range part = equal_part(counts_.documents, windows_, window % windows_);
  std::vector<std::int64_t> documents(static_cast<std::size_t>(part.count()));
  std::iota(documents.begin(), documents.end(), part.begin);
  if (order_ == DataOrder::kSequential) return {starts_->runs(documents), rules_, nullptr};
  const Permutation permute(counts_.documents,
                            RandomStream(seed_, fmt::format("documents of epoch {}", epoch)));
  for (std::int64_t& document : documents) document = permute(document);
  std::ranges::sort(documents);
  const RandomStream shuffle(seed_, fmt::format("sequences of window {}", window));
  return {starts_->runs(documents), rules_, &shuffle};
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
