#include "data/mixture.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

namespace sluice {
namespace {

/// Returns a number in [0, 1) from 64 random bits.
double fraction(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace

std::uint64_t seed_of_source(std::uint64_t seed, std::size_t source) {
  return source == 0 ? seed : RandomStream(seed, fmt::format("order of source {}", source)).bits(0);
}

Mixture::Mixture(std::vector<Source> sources, std::int64_t batch_sequences, DataOrder order,
                 std::uint64_t seed)
    : sources_(std::move(sources)), batch_sequences_(batch_sequences) {
  SLUICE_ASSERT(!sources_.empty(), "a mixture needs at least one source");
  for (std::size_t source = 0; source < sources_.size(); ++source) {
    SLUICE_ASSERT(sources_[source].weight > 0, "a source of weight {}", sources_[source].weight);
    samplers_.emplace_back(sources_[source].sequences, order, seed_of_source(seed, source));
    fractions_.emplace_back(seed, fmt::format("turns of source {}", source));
    all_weights_ += sources_[source].weight;
  }
}

std::int64_t Mixture::sequences() const {
  std::int64_t all = 0;
  for (const Source& source : sources_) all += source.sequences;
  return all;
}

double Mixture::time_of(std::size_t source, std::int64_t number) const {
  const std::uint64_t bits = fractions_[source].bits(static_cast<std::uint64_t>(number));
  const double place = static_cast<double>(number) + fraction(bits);
  return place / sources_[source].weight;
}

/// The first sequence of a source that is not before `time`; exact for any rounding in time_of(), which never
/// falls.
std::int64_t Mixture::first_from(std::size_t source, double time) const {
  std::int64_t number = std::max<std::int64_t>(0, static_cast<std::int64_t>(time * sources_[source].weight));
  while (number > 0 && time_of(source, number - 1) >= time) --number;
  while (time_of(source, number) < time) ++number;
  return number;
}

std::vector<Mixture::Turn> Mixture::turns(std::int64_t begin, std::int64_t end, std::int64_t& first) const {
  // Before a time t lie t times the sum of weights sequences, give or take one for each source.
  const auto margin = static_cast<double>(sources_.size() + 1);
  const double from = std::max(0.0, (static_cast<double>(begin) - margin) / all_weights_);
  const double until = (static_cast<double>(end) + margin) / all_weights_;
  std::vector<Turn> turns;
  first = 0;
  for (std::size_t source = 0; source < sources_.size(); ++source) {
    const std::int64_t own_first = first_from(source, from), own_end = first_from(source, until);
    first += own_first;
    for (std::int64_t number = own_first; number < own_end; ++number)
      turns.push_back({time_of(source, number), source, number});
  }
  std::ranges::sort(turns, {},
                    [](const Turn& turn) { return std::tuple(turn.time, turn.source, turn.number); });
  SLUICE_ASSERT(first <= begin && first + std::ssize(turns) >= end, "turns {} to {} for {} to {}", first,
                first + std::ssize(turns), begin, end);
  return turns;
}

std::vector<std::int64_t> Mixture::taken(std::int64_t position) const {
  if (sources_.size() == 1) return {position};
  std::int64_t first = 0;
  const std::vector<Turn> all = turns(position, position, first);
  const double from = all.empty() ? 0 : all.front().time;
  std::vector<std::int64_t> taken;
  for (std::size_t source = 0; source < sources_.size(); ++source) taken.push_back(first_from(source, from));
  for (const Turn& turn : std::span(all).first(static_cast<std::size_t>(position - first)))
    taken[turn.source] = turn.number + 1;
  return taken;
}

std::vector<Mixture::Place> Mixture::at(std::int64_t begin, std::int64_t end) const {
  std::int64_t first = 0;
  std::vector<Turn> turns = this->turns(begin, end, first);
  const std::span<const Turn> wanted = std::span(turns).subspan(static_cast<std::size_t>(begin - first),
                                                                static_cast<std::size_t>(end - begin));
  std::vector<Place> places(wanted.size());
  for (std::size_t source = 0; source < sources_.size(); ++source) {
    // Turns of one source are consecutive in its own order, so a single call of the sampler returns all of
    // them.
    const auto is_own = [&](const Turn& turn) { return turn.source == source; };
    const auto own = std::ranges::find_if(wanted, is_own);
    if (own == wanted.end()) continue;
    const std::int64_t count = std::ranges::count_if(wanted, is_own);
    std::vector<std::int64_t> sequences(static_cast<std::size_t>(count));
    if (sources_[source].is_endless)
      std::iota(sequences.begin(), sequences.end(), own->number);
    else
      sequences = samplers_[source].at(own->number, own->number + count);
    auto next = sequences.begin();
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (is_own(wanted[i])) places[i] = {source, *next++};
  }
  return places;
}

std::vector<Mixture::Place> Mixture::batch(std::int64_t step) const {
  return at(step * batch_sequences_, (step + 1) * batch_sequences_);
}

}  // namespace sluice
