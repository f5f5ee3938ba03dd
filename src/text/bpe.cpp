#include "text/bpe.hpp"

#include "base/error.hpp"
#include "text/unicode/unicode.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

namespace sluice::text {
namespace {

constexpr std::size_t kEntries = 1 << 15;
/// Longest word in characters that is merged by looking at all of its pairs.
constexpr std::size_t kShortWord = 48;
constexpr std::uint32_t kNoRank = std::numeric_limits<std::uint32_t>::max();

std::uint64_t mixed(std::uint64_t value) {
  value *= 0x9e3779b97f4a7c15;
  return value ^ value >> 32;
}

std::size_t hash_of(std::string_view word) {
  std::uint64_t hash = word.size();
  while (word.size() >= 8) {
    std::uint64_t part = 0;
    std::memcpy(&part, word.data(), 8);
    hash = mixed(hash ^ part);
    word.remove_prefix(8);
  }
  std::uint64_t rest = 0;
  std::memcpy(&rest, word.data(), word.size());
  return mixed(hash ^ rest ^ std::uint64_t{word.size()} << 56);
}

}  // namespace

BpeScratch::BpeScratch() : entries_(kEntries) {}

std::size_t Bpe::slot_of(std::uint64_t pair) const { return mixed(pair) & (merges_.size() - 1); }

const Bpe::Merge* Bpe::find_merge(TokenId first, TokenId second) const {
  const std::uint64_t pair =
      std::uint64_t{static_cast<std::uint32_t>(first)} << 32 | static_cast<std::uint32_t>(second);
  for (std::size_t at = slot_of(pair); merges_[at].pair != kNoPair; at = (at + 1) & (merges_.size() - 1))
    if (merges_[at].pair == pair) return &merges_[at];
  return nullptr;
}

std::optional<TokenId> Bpe::id_of(std::string_view token) const {
  const auto found = ids_.find(std::string(token));
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::optional<TokenId> Bpe::character_id(std::string_view character) const {
  const auto found = character_ids_.find(character_at(character, 0).code);
  if (found == character_ids_.end()) return std::nullopt;
  return found->second;
}

std::size_t Bpe::bytes_of(TokenId id) const {
  const std::string& token = tokens_[static_cast<std::size_t>(id)];
  if (byte_level_) return bytes_of_byte_level(token).value_or(token).size();
  return byte_fallback_ && std::ranges::find(byte_ids_, id) != byte_ids_.end() ? 1 : token.size();
}

bool Bpe::may_cut_between(char32_t first, char32_t second) const {
  return may_cut_ && !neighbours_.contains(std::uint64_t{first} << 32 | second);
}

void Bpe::encode(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& out) const {
  if (ignore_merges_) {
    const auto& whole = byte_level_ ? words_ : ids_;
    if (const auto found = whole.find(std::string(word)); found != whole.end()) {
      out.push_back(found->second);
      return;
    }
  }
  while (!word.empty()) {
    const std::size_t end = may_cut_ ? cut_end(word) : word.size();
    encode_cut(word.substr(0, end), scratch, out);
    word.remove_prefix(end);
  }
}

/// First place at which the word may be cut, or its end.
std::size_t Bpe::cut_end(std::string_view word) const {
  Character character = character_at(word, 0);
  std::size_t at = character.bytes;
  while (at < word.size()) {
    const Character next = character_at(word, at);
    if (may_cut_between(character.code, next.code)) return at;
    character = next;
    at += next.bytes;
  }
  return at;
}

void Bpe::encode_cut(std::string_view part, BpeScratch& scratch, std::vector<TokenId>& out) const {
  if (part.size() > BpeScratch::kWordBytes) return encode_new(part, scratch, out);
  BpeScratch::Entry& entry = scratch.entries_[hash_of(part) & (kEntries - 1)];
  if (entry.word_bytes == part.size() && std::memcmp(entry.word.data(), part.data(), part.size()) == 0) {
    out.insert(out.end(), entry.tokens.begin(), entry.tokens.begin() + entry.token_count);
    return;
  }
  const std::size_t before = out.size();
  encode_new(part, scratch, out);
  const std::size_t count = out.size() - before;
  if (count > BpeScratch::kWordTokens) return;
  entry.word_bytes = static_cast<std::uint8_t>(part.size());
  entry.token_count = static_cast<std::uint8_t>(count);
  std::ranges::copy(part, entry.word.begin());
  std::copy(out.end() - static_cast<std::ptrdiff_t>(count), out.end(), entry.tokens.begin());
}

void Bpe::encode_new(std::string_view part, BpeScratch& scratch, std::vector<TokenId>& out) const {
  scratch.initial_.clear();
  take_characters(part, scratch.initial_);
  if (scratch.initial_.size() <= kShortWord)
    merge_short(scratch.initial_, out);
  else
    merge_long(scratch, out);
}

/// Takes the tokens of single characters or bytes. As in the tokenizers library, an unknown character waits
/// for the next known one; bytes that stand for a character do not count as known.
void Bpe::take_characters(std::string_view part, std::vector<TokenId>& initial) const {
  std::int64_t waiting = 0;
  const auto put_waiting = [&] {
    initial.insert(initial.end(), static_cast<std::size_t>(waiting), unknown_.value_or(0));
    waiting = 0;
  };
  const auto put = [&](TokenId id) {
    put_waiting();
    initial.push_back(id);
  };
  const auto put_unknown = [&] {
    if (!unknown_ || (waiting > 0 && fuse_unknown_)) return;
    put_waiting();
    waiting = 1;
  };
  for (std::size_t i = 0; i < part.size();) {
    const std::size_t bytes = byte_level_ ? 1 : character_at(part, i).bytes;
    const std::string_view character = part.substr(i, bytes);
    i += bytes;
    const auto byte_id = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
    if (byte_level_) {
      if (byte_id(character[0]) >= 0)
        put(byte_id(character[0]));
      else
        put_unknown();
    } else if (const std::optional<TokenId> id = character_id(character)) {
      put(*id);
    } else if (byte_fallback_ &&
               std::ranges::all_of(character, [&](char byte) { return byte_id(byte) >= 0; })) {
      for (const char byte : character) initial.push_back(byte_id(byte));
    } else {
      put_unknown();
    }
  }
  put_waiting();
}

/// Joins the pair with the lowest rank, of equal ones the first, until no pair can be joined.
void Bpe::merge_short(std::span<const TokenId> initial, std::vector<TokenId>& out) const {
  struct Symbol {
    TokenId id;
    std::uint32_t rank;  ///< rank of the merge with the next symbol; kNoRank: none
    TokenId joined;
  };
  std::array<Symbol, kShortWord> symbols;
  std::size_t count = initial.size();
  const auto look_up = [&](std::size_t i) {
    const Merge* merge = i + 1 < count ? find_merge(symbols[i].id, symbols[i + 1].id) : nullptr;
    symbols[i].rank = merge ? merge->rank : kNoRank;
    symbols[i].joined = merge ? merge->joined : 0;
  };
  for (std::size_t i = 0; i < count; ++i) symbols[i].id = initial[i];
  for (std::size_t i = 0; i < count; ++i) look_up(i);
  while (count > 1) {
    const auto end = symbols.begin() + static_cast<std::ptrdiff_t>(count);
    const auto best = std::min_element(symbols.begin(), end,
                                       [](const Symbol& a, const Symbol& b) { return a.rank < b.rank; });
    if (best->rank == kNoRank) break;
    best->id = best->joined;
    std::copy(best + 2, end, best + 1);
    --count;
    const auto i = static_cast<std::size_t>(best - symbols.begin());
    look_up(i);
    if (i > 0) look_up(i - 1);
  }
  for (std::size_t i = 0; i < count; ++i) out.push_back(symbols[i].id);
}

void Bpe::push_candidate(BpeScratch& scratch, std::int32_t first) const {
  const auto& symbols = scratch.symbols_;
  const BpeScratch::Symbol& symbol = symbols[static_cast<std::size_t>(first)];
  if (symbol.behind < 0) return;
  const Merge* merge = find_merge(symbol.id, symbols[static_cast<std::size_t>(symbol.behind)].id);
  if (!merge) return;
  scratch.heap_.push_back({merge->rank, first, merge->joined});
  std::ranges::push_heap(scratch.heap_, std::greater<>());
}

/// Merges with a heap, in O(n log n).
void Bpe::merge_long(BpeScratch& scratch, std::vector<TokenId>& out) const {
  auto& symbols = scratch.symbols_;
  auto& heap = scratch.heap_;
  const auto count = static_cast<std::int32_t>(scratch.initial_.size());
  symbols.clear();
  heap.clear();
  for (std::int32_t i = 0; i < count; ++i)
    symbols.push_back({scratch.initial_[static_cast<std::size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1});
  for (std::int32_t i = 0; i < count; ++i) push_candidate(scratch, i);
  while (!heap.empty()) {
    std::ranges::pop_heap(heap, std::greater<>());
    const BpeScratch::Candidate best = heap.back();
    heap.pop_back();
    BpeScratch::Symbol& first = symbols[static_cast<std::size_t>(best.at)];
    if (first.id < 0 || first.behind < 0) continue;
    BpeScratch::Symbol& second = symbols[static_cast<std::size_t>(first.behind)];
    const Merge* merge = find_merge(first.id, second.id);
    if (!merge || merge->joined != best.joined) continue;  // one of the two has changed since
    first.id = best.joined;
    second.id = -1;
    first.behind = second.behind;
    if (first.behind >= 0) symbols[static_cast<std::size_t>(first.behind)].before = best.at;
    push_candidate(scratch, best.at);
    if (first.before >= 0) push_candidate(scratch, first.before);
  }
  for (const BpeScratch::Symbol& symbol : symbols)
    if (symbol.id >= 0) out.push_back(symbol.id);
  // After a document that is one long word its memory is freed, since the next words are short.
  constexpr std::size_t kKept = 1 << 16;
  if (symbols.capacity() > kKept) {
    symbols = {};
    heap = {};
    scratch.initial_ = {};
  }
}

}  // namespace sluice::text
