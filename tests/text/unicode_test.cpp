#include "text/unicode/unicode.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::text {
namespace {

std::string utf8(std::u32string_view codes) {
  std::string text;
  for (const char32_t code : codes) append_utf8(text, code);
  return text;
}

TEST(Unicode, classes_are_those_of_version_16) {
  EXPECT_TRUE(has(U'é', kLetter));
  EXPECT_TRUE(has(0x10d40, kNumber)) << "a digit since 16.0";
  EXPECT_TRUE(has(0x1c89, kLetter)) << "a letter since 16.0";
  EXPECT_FALSE(has(0xa7ce, kLetter)) << "a letter since 17.0";
  EXPECT_TRUE(has(0x85, kSpace) && has(0x3000, kSpace) && has('\v', kSpace));
  EXPECT_FALSE(has(0x180e, kSpace)) << "no blank since 6.3";
  EXPECT_FALSE(has(0x200b, kSpace));
  EXPECT_TRUE(has(0x301, kMark) && !has(0x301, kLetter));
  EXPECT_TRUE(has('_', kWord) && has(0x200d, kWord) && has(0x24b6, kWord) && !has(0xb2, kWord));
}

TEST(Unicode, normal_form_c_is_that_of_version_9) {
  const std::vector<std::pair<std::u32string, std::u32string>> cases = {
      {U"e\u0301", U"é"},
      {U"e\u0323\u0301", U"\u1eb9\u0301"},
      {U"e\u0301\u0323", U"\u1eb9\u0301"},
      {U"\u212b", U"\u00c5"},
      {U"\u1100\u1161\u11a8", U"\uac01"},
      {U"\uac00\u11a8", U"\uac01"},
      {U"\uac00\u11a7", U"\uac00\u11a7"},
      {U"\u0958", U"\u0915\u093c"},
      {U"\u0344", U"\u0308\u0301"},
      {U"a\u0300\u0300", U"à\u0300"},
      {U"\u0301a", U"\u0301a"},
      {U"a\u1ac1\u0323", U"a\u1ac1\u0323"},                // a mark since 14.0: not reordered
      {U"\U00011935\U00011930", U"\U00011935\U00011930"},  // composes since 13.0
      {U"", U""},
  };
  for (const auto& [text, composed] : cases) {
    EXPECT_EQ(normalized(utf8(text), NormalForm::kC), utf8(composed));
    EXPECT_EQ(normalized("x " + utf8(text) + " y", NormalForm::kC), "x " + utf8(composed) + " y");
  }
}

TEST(Unicode, normal_forms_take_characters_apart_and_replace_those_that_stand_for_others) {
  const std::u32string text =
      U"\u1e9b\u0323 \ufb01 \u00bd \uac01 \u3300 e\u0301\u0323";  // long s with dots, ligature, half
  EXPECT_EQ(normalized(utf8(text), NormalForm::kD),
            utf8(U"\u017f\u0323\u0307 \ufb01 \u00bd \u1100\u1161\u11a8 \u3300 e\u0323\u0301"));
  EXPECT_EQ(
      normalized(utf8(text), NormalForm::kKD),
      utf8(U"s\u0323\u0307 fi 1\u20442 \u1100\u1161\u11a8 \u30a2\u30cf\u309a\u30fc\u30c8 e\u0323\u0301"));
  EXPECT_EQ(normalized(utf8(text), NormalForm::kKC),
            utf8(U"\u1e69 fi 1\u20442 \uac01 \u30a2\u30d1\u30fc\u30c8 \u1eb9\u0301"));
  EXPECT_EQ(normalized("plain\ntext", NormalForm::kKC), "plain\ntext");
}

TEST(Unicode, lower_case_is_that_of_each_character_alone) {
  EXPECT_EQ(lower_case("CALL Me"), "call me");
  EXPECT_EQ(lower_case(utf8(U"\u0130\u1e9e\u03a3")), utf8(U"i\u0307\u00df\u03c3")) << "no final sigma";
  EXPECT_EQ(lower_case(utf8(U"\u00e4\u4e2d")), utf8(U"\u00e4\u4e2d"));
}

TEST(Unicode, broken_utf8_is_repaired_by_its_longest_parts) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"\xff", "\ufffd"},
      {"\xe2\x82", "\ufffd"},
      {"\xe2\x82\x61", "\ufffda"},
      {"\xf0\x9f\x98", "\ufffd"},
      {"\xf0\x80\x80", "\ufffd\ufffd\ufffd"},
      {"\xed\xa0\x80", "\ufffd\ufffd\ufffd"},
      {"\xc0\xaf", "\ufffd\ufffd"},
      {"a\x80z", "a\ufffdz"},
      {"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", "\ufffd\ufffd\ufffd\ufffd\x41"},
  };
  for (const auto& [text, repaired] : cases) {
    std::string out;
    EXPECT_GT(append_repaired(out, text), 0);
    EXPECT_EQ(out, repaired);
  }
}

TEST(Unicode, the_beginning_of_a_character_is_known_as_such) {
  EXPECT_EQ(unfinished_bytes("a"), 0U);
  EXPECT_EQ(unfinished_bytes("a\xe2\x82"), 2U);
  EXPECT_EQ(unfinished_bytes("\xf0\x9f\x98"), 3U);
  EXPECT_EQ(unfinished_bytes("\xf0\x9f\x98\x80"), 0U);
  EXPECT_EQ(unfinished_bytes("\xf0\x80"), 0U) << "nothing completes it";
  EXPECT_EQ(unfinished_bytes("\xff"), 0U);
  EXPECT_EQ(unfinished_bytes(""), 0U);
}

}  // namespace
}  // namespace sluice::text
