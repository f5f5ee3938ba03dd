#include "text/pre_tokenizer.hpp"

#include "text/matching/literal_matcher.hpp"
#include "text/normalizer.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace sluice::text {
namespace {

std::shared_ptr<const Matcher> matcher_of(const JsonNode& node) {
  const JsonNode pattern = node.object("pattern");
  if (!pattern.has("Regex")) return literal_matcher(literal_pattern(node));
  const std::string text = pattern.text("Regex");
  if (std::shared_ptr<const Matcher> published = published_matcher(text)) return published;
  return pcre2_matcher(text, node.name());
}

}  // namespace

void Words::clear() {
  views.clear();
  owned.clear();
}

PreTokenizer::PreTokenizer(const JsonNode& node) { add(node); }

void PreTokenizer::add(const JsonNode& node) {
  const std::string type = node.type();
  if (is_byte_level_) node.refuse("type", "nothing after ByteLevel");
  if (type == "Sequence")
    for (const JsonNode& step : node.items("pretokenizers")) add(step);
  else if (type == "Split")
    add_split(node);
  else if (type == "Digits")
    steps_.push_back(
        {.kind = Step::Kind::kSplit,
         .matcher = digit_matcher(),
         .behavior = node.boolean("individual_digits", false) ? Behavior::kIsolated : Behavior::kContiguous});
  else if (type == "ByteLevel")
    add_byte_level(node);
  else if (type == "Metaspace")
    add_metaspace(node);
  else
    node.refuse("type", "one of the supported pre-tokenizers: Split, Digits, ByteLevel, Metaspace, Sequence");
}

void PreTokenizer::add_split(const JsonNode& node) {
  constexpr std::array<std::pair<std::string_view, Behavior>, 5> kBehaviors = {{
      {"Removed", Behavior::kRemoved},
      {"Isolated", Behavior::kIsolated},
      {"MergedWithPrevious", Behavior::kMergedWithPrevious},
      {"MergedWithNext", Behavior::kMergedWithNext},
      {"Contiguous", Behavior::kContiguous},
  }};
  const std::string behavior = node.text("behavior");
  const auto found = std::ranges::find(kBehaviors, behavior, &std::pair<std::string_view, Behavior>::first);
  if (found == kBehaviors.end())
    node.refuse("behavior", "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
  steps_.push_back({.kind = Step::Kind::kSplit,
                    .matcher = matcher_of(node),
                    .behavior = found->second,
                    .invert = node.boolean("invert", false)});
}

void PreTokenizer::add_byte_level(const JsonNode& node) {
  if (node.boolean("add_prefix_space", true)) steps_.push_back({.kind = Step::Kind::kBlankPrefix});
  if (node.boolean("use_regex", true))
    steps_.push_back({.kind = Step::Kind::kSplit, .matcher = published_matcher(kByteLevelPattern)});
  is_byte_level_ = true;
}

void PreTokenizer::add_metaspace(const JsonNode& node) {
  const std::string scheme =
      node.text("prepend_scheme", node.boolean("add_prefix_space", true) ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    node.refuse("prepend_scheme", "always, first or never");
  steps_.push_back({.kind = Step::Kind::kMetaspace,
                    .replacement = node.text("replacement"),
                    .prefix = scheme == "always"  ? Prefix::kAlways
                              : scheme == "first" ? Prefix::kFirst
                                                  : Prefix::kNever,
                    .splits = node.boolean("split", true)});
  if (steps_.back().replacement.empty()) node.refuse("replacement", "a character");
  steps_.back().matcher = literal_matcher(steps_.back().replacement);
  steps_.back().behavior = Behavior::kMergedWithNext;
}

Cuts PreTokenizer::cuts() const {
  if (steps_.empty()) return Cuts::kNowhere;
  Cuts cuts = Cuts::kLineBreaks;
  for (const Step& step : steps_) {
    const bool isolates = step.kind == Step::Kind::kSplit && step.behavior == Behavior::kIsolated;
    cuts = std::min(cuts, isolates ? step.matcher->cuts() : Cuts::kNowhere);
  }
  return cuts;
}

bool PreTokenizer::has_patterns() const {
  return std::ranges::any_of(steps_, [](const Step& step) { return step.kind == Step::Kind::kSplit; });
}

void PreTokenizer::split_by(const Step& step, std::string_view word, std::vector<std::string_view>& out) {
  std::size_t begin = 0;   // begin of the word that is being put together
  bool was_match = false;  // whether the part before was a match
  const auto put = [&](std::size_t end) {
    if (end > begin) out.push_back(word.substr(begin, end - begin));
    begin = end;
  };
  const auto part = [&](std::size_t first, std::size_t end, bool is_match) {
    if (first == end) return;
    switch (step.behavior) {
      case Behavior::kRemoved:
        if (is_match)
          begin = end;
        else
          put(end);
        break;
      case Behavior::kIsolated:
        put(end);
        break;
      case Behavior::kMergedWithPrevious:
        if (!is_match || was_match) put(first);
        if (is_match) put(end);
        break;
      case Behavior::kMergedWithNext:
        if (is_match)
          put(first);
        else
          put(end);
        break;
      case Behavior::kContiguous:
        if (is_match != was_match) put(first);
        break;
    }
    was_match = is_match;
  };
  std::size_t done = 0;
  while (done < word.size()) {
    const auto [first, end] = step.matcher->find(word, done);
    part(done, first, step.invert);
    part(first, end, !step.invert);
    done = end;
  }
  put(word.size());
}

void PreTokenizer::split_metaspace(const Step& step, std::string_view word, bool prefixed, Words& words) {
  std::string text = replaced(word, " ", step.replacement);
  if (prefixed && !text.starts_with(step.replacement)) text.insert(0, step.replacement);
  words.owned.push_back(std::move(text));
  if (step.splits)
    split_by(step, words.owned.back(), words.next);
  else
    words.next.push_back(words.owned.back());
}

void PreTokenizer::split(std::string_view text, const Place& place, Words& words) const {
  const std::size_t before = words.views.size();
  words.views.push_back(text);
  for (const Step& step : steps_) {
    words.next.clear();
    for (std::size_t i = before; i < words.views.size(); ++i) {
      const std::string_view word = words.views[i];
      const bool is_first = i == before;
      switch (step.kind) {
        case Step::Kind::kSplit:
          split_by(step, word, words.next);
          break;
        case Step::Kind::kBlankPrefix:
          words.next.push_back(word);
          if (!word.starts_with(' ') && (place.begins || !is_first))
            words.next.back() = words.owned.emplace_back(1, ' ').append(word);
          break;
        case Step::Kind::kMetaspace:
          split_metaspace(
              step, word,
              (place.begins || !is_first) && (step.prefix == Prefix::kAlways ||
                                              (step.prefix == Prefix::kFirst && place.at_start && is_first)),
              words);
          break;
      }
    }
    words.views.resize(before);
    words.views.insert(words.views.end(), words.next.begin(), words.next.end());
  }
}

}  // namespace sluice::text
