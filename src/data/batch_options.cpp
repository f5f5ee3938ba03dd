#include "data/batch_options.hpp"

#include <algorithm>

namespace sluice {

Mixture BatchOptions::mixture(const std::vector<SourceFacts>& facts) const {
  std::vector<Mixture::Source> mixed;
  for (std::size_t i = 0; i < facts.size(); ++i)
    mixed.push_back({facts[i].sequences, sources[i].weight, facts[i].is_packed});
  return {std::move(mixed), batch_sequences, order, seed};
}

bool BatchOptions::marks_documents(const std::vector<SourceFacts>& facts) const {
  return file.keep_rest || pack || std::ranges::any_of(facts, &SourceFacts::marks_documents);
}

std::vector<std::int64_t> BatchOptions::taken_in_all(const std::vector<SourceFacts>& facts) const {
  if (!file.keep_rest) return mixture(facts).taken(steps * batch_sequences);
  std::vector<std::int64_t> all;
  for (const SourceFacts& source : facts) all.push_back(source.sequences);
  return all;
}

}  // namespace sluice
