#include "text/tiktoken_file.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/file.hpp"
#include "io/json_object.hpp"
#include "io/path.hpp"
#include "text/added_tokens.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <unordered_set>

namespace sluice::text {
namespace {

using nlohmann::json;

/// Pattern of TikTokenTokenizer, which the file does not have: Han characters are kept apart from other
/// letters.
constexpr std::string_view kPattern =
    R"([\p{Han}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han})"
    R"(]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han})"
    R"(]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kKnownClass = "TikTokenTokenizer";

/// Six bits that a character of base64 stands for; -1: none.
int bits_of(char c) {
  if ('A' <= c && c <= 'Z') return c - 'A';
  if ('a' <= c && c <= 'z') return c - 'a' + 26;
  if ('0' <= c && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  std::size_t padding = 0;
  while (padding < 2 && text.ends_with('=')) {
    text.remove_suffix(1);
    ++padding;
  }
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int value = bits_of(c);
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  const bool is_whole = (bits & ((1U << count) - 1)) == 0;
  return is_whole ? std::optional(bytes) : std::nullopt;
}

json split_and_bytes() {
  const json split{
      {"type", "Split"}, {"pattern", {{"Regex", kPattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  const json bytes{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return {{"type", "Sequence"}, {"pretokenizers", json::array({split, bytes})}};
}

}  // namespace

std::vector<std::string> parse_tiktoken(std::string_view text, const std::string& name) {
  std::vector<std::string> tokens;
  std::unordered_set<std::string> known;
  std::int64_t line_number = 0, count = 0;
  const auto refuse = [&](std::string_view line, std::string_view expected) {
    fail({ExitCode::kBadData, "text.tokenizer"}, "{}: line {}: found '{}', expected {}", name, line_number,
         printable(line, 80), expected);
  };
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    ++line_number;
    if (line.empty()) continue;
    const std::size_t blank = line.find(' ');
    const std::optional<std::string> bytes = from_base64(line.substr(0, blank));
    const auto rank = whole_number(blank == std::string_view::npos ? "" : line.substr(blank + 1));
    if (!bytes || !rank || *rank >= kMostIds) refuse(line, "bytes in base64, a blank and a rank");
    if (static_cast<std::size_t>(*rank) >= tokens.size()) tokens.resize(static_cast<std::size_t>(*rank) + 1);
    std::string& token = tokens[static_cast<std::size_t>(*rank)];
    if (!token.empty() || !known.insert(*bytes).second) refuse(line, "bytes and a rank of their own");
    token = *bytes;
    ++count;
  }
  if (count == 0 || count != std::ssize(tokens))
    fail({ExitCode::kBadData, "text.tokenizer"},
         "{}: found {} tokens with ranks up to {}, expected one for every rank", name, count,
         std::ssize(tokens) - 1);
  return tokens;
}

std::string tiktoken_document() {
  return json{{"pre_tokenizer", split_and_bytes()}, {"decoder", {{"type", "ByteLevel"}}}}.dump();
}

std::string reserved_token(std::int64_t id) { return fmt::format("<|reserved_token_{}|>", id); }

void require_known_tiktoken(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "tokenizer_config.json";
  std::string found = "no such file";
  if (path_exists(path)) {
    const json config = parse_json_object<json>(read_text_file(path, 64 << 20), path.string() + ": ");
    const auto name = config.find("tokenizer_class");
    found = name == config.end() ? "nothing" : shown_json(*name);
    if (name != config.end() && *name == kKnownClass) return;
  }
  fail({ExitCode::kBadData, "text.tokenizer"},
       "{}: tokenizer_class: found {}, expected \"{}\": {} does not say by which pattern text is split, and "
       "only that of Kimi and Moonlight is known. transformers writes tokenizer.json for other models "
       "(save_pretrained)",
       path.string(), found, kKnownClass, kTiktokenFile);
}

}  // namespace sluice::text
