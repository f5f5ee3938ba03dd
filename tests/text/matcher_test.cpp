// The patterns written out as code against the same patterns in pcre2.
#include "text/matching/matcher.hpp"

#include "base/random.hpp"
#include "support/expect_error.hpp"
#include "text/unicode/unicode.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice::text {
namespace {

const std::string kContractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const std::vector<std::string> kPatterns = {
    std::string(kByteLevelPattern),
    kContractions +
        R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    kContractions + R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    kContractions +
        R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
};

std::vector<std::string> pieces(const Matcher& matcher, std::string_view text) {
  std::vector<std::string> found;
  for (std::size_t at = 0; at < text.size();) {
    const auto [begin, end] = matcher.find(text, at);
    if (begin > at) found.push_back("gap:" + std::string(text.substr(at, begin - at)));
    if (end > begin) found.emplace_back(text.substr(begin, end - begin));
    at = end;
  }
  return found;
}

/// Characters in which patterns differ, drawn by chance.
std::string drawn_text(std::uint64_t seed) {
  const std::u32string characters =
      U"   \n\n\r\t'sStTrReEvVmMlLdDaZ019.,!é中\u0301\u0300\u00a0\u3000\u180e\u017f\u00bd\u2167\U0001f600\u200d_\u212a";
  const RandomStream draw(seed, "text");
  std::string text;
  for (std::uint64_t i = 0; i < 60; ++i) append_utf8(text, characters[draw.bits(i) % characters.size()]);
  return text;
}

TEST(Matcher, published_patterns_split_as_pcre2_does) {
  for (const std::string& pattern : kPatterns) {
    const auto published = published_matcher(pattern);
    ASSERT_TRUE(published) << pattern;
    const auto other = pcre2_matcher(pattern, "p");
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
      const std::string text = drawn_text(seed);
      ASSERT_EQ(pieces(*published, text), pieces(*other, text)) << pattern << "\n" << text;
    }
  }
}

TEST(Matcher, every_character_has_the_same_class_in_both) {
  for (const std::string& pattern : kPatterns) {
    const auto published = published_matcher(pattern);
    const auto other = pcre2_matcher(pattern, "p");
    for (char32_t first = 0; first < 0x30000; first += 64) {
      std::string text;
      for (char32_t code = first; code < first + 64; ++code)
        if (code < 0xd800 || code >= 0xe000) {
          text += "a";
          append_utf8(text, code);
          text += "1";
        }
      ASSERT_EQ(pieces(*published, text), pieces(*other, text)) << std::hex << static_cast<unsigned>(first);
    }
  }
}

TEST(Matcher, a_class_within_a_class_leaves_what_is_in_both) {
  const auto matcher = pcre2_matcher(R"([\p{L}\p{M}&&[^\p{Han}]]+)", "p");
  EXPECT_EQ(pieces(*matcher, "aé中文b\u0301、カ々"),
            (std::vector<std::string>{"aé", "gap:中文", "b\u0301", "gap:、", "カ", "gap:々"}));
}

TEST(Matcher, what_pcre2_reads_otherwise_is_refused) {
  for (const auto& [pattern, what] :
       std::vector<std::pair<std::string, std::string>>{{"^a", "'^'"},
                                                        {"a.b", "'.'"},
                                                        {R"(\h+)", "\\h"},
                                                        {R"(\bword)", "\\b"},
                                                        {R"(\p{Greek})", "Greek"},
                                                        {"[a&&b]", "class within"},
                                                        {"[^a&&[b]]", "class within"},
                                                        {"[a&&[b]c]", "more behind"},
                                                        {"(?<=a)b", "(?<="},
                                                        {"(?#x)", "(?#x"},
                                                        {"a{2}+", "sign after a count"},
                                                        {"(a", "not a valid pattern"},
                                                        {"[a", "unexpected end"}})
    test::expect_error(ExitCode::kBadData, {"place", what},
                       [&, text = pattern] { (void)pcre2_matcher(text, "place"); });
}

}  // namespace
}  // namespace sluice::text
