#include "base/text.hpp"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Nearest, finds_a_word_with_a_slip) {
  const std::vector<std::string> keys{"steps", "learning_rate", "weight_decay"};
  EXPECT_EQ(nearest("learning_rat", keys), "learning_rate");
  EXPECT_EQ(nearest("weigth_decay", keys), "weight_decay");
  EXPECT_EQ(nearest("step", keys), "steps");
  EXPECT_EQ(nearest("setps", keys), "steps") << "two letters apart";
}

TEST(Nearest, gives_nothing_for_a_word_that_is_far) {
  const std::vector<std::string> keys{"steps", "learning_rate"};
  EXPECT_EQ(nearest("zzzzzzzzzz", keys), "");
  EXPECT_EQ(nearest("steps", {}), "");
}

TEST(Printable, shows_control_characters_and_broken_utf8) {
  EXPECT_EQ(printable("a\nb\x7f\x01"), "a\\x0ab\\x7f\\x01");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xc3\xa4\xe2\x82\xac"), "\xc3\xa4\xe2\x82\xac");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("a\xc2\x9b"
                      "31m\xc2\xa0"),
            "a\\xc2\\x9b31m\xc2\xa0")
      << "U+009B begins a sequence as ESC [ does";
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "b\xe2\x81\xa6\xe2\x80\xa6"),
            "\\xe2\\x80\\xaeb\\xe2\\x81\\xa6\xe2\x80\xa6");
}

TEST(Printable, cuts_long_text_between_characters) {
  EXPECT_EQ(printable("abcdef", 3), "abc…");
  EXPECT_EQ(printable("abc", 3), "abc");
  EXPECT_EQ(printable("ab\xc3\xa4\xc3\xa4", 3), "ab\xc3\xa4…");
}

TEST(JoinSome, counts_what_it_leaves_out) {
  const std::vector<std::string> items{"a", "b", "c"};
  EXPECT_EQ(join_some(items), "a, b, c");
  EXPECT_EQ(join_some(items, 2), "a, b and 1 more");
  EXPECT_EQ(join_some({}), "");
}

TEST(ShapeText, is_a_bracketed_list) {
  const std::vector<std::int64_t> shape{128, 1536, 2048};
  EXPECT_EQ(shape_text(shape), "[128, 1536, 2048]");
  EXPECT_EQ(shape_text({}), "[]");
}

TEST(LinesOfSome, puts_each_on_a_line_up_to_a_limit) {
  const std::vector<std::string> items{"a", "b", "c"};
  EXPECT_EQ(lines_of_some(items, 3), "\n    a\n    b\n    c");
  EXPECT_EQ(lines_of_some(items, 1), "\n    a\n    and 2 more");
  EXPECT_EQ(lines_of_some({}, 3), "");
}

TEST(Text, wrapped_breaks_at_blanks_and_leaves_long_words_whole) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(wrapped("", 5), Lines{""});
  EXPECT_EQ(wrapped("one two", 7), Lines{"one two"});
  EXPECT_EQ(wrapped("one two three", 7), (Lines{"one two", "three"}));
  EXPECT_EQ(wrapped("one two three", 8), (Lines{"one two", "three"}));
  EXPECT_EQ(wrapped("incomprehensible to me", 5), (Lines{"incomprehensible", "to me"}));
  EXPECT_EQ(wrapped("to incomprehensible", 5), (Lines{"to", "incomprehensible"}));
}

TEST(WholeNumber, is_made_of_digits_alone) {
  EXPECT_EQ(whole_number("0"), 0);
  EXPECT_EQ(whole_number("9223372036854775807"), 9223372036854775807);
  for (const char* text : {"", "-1", "-0", "+1", " 1", "1 ", "1x", "9223372036854775808"})
    EXPECT_EQ(whole_number(text), std::nullopt) << text;
}

TEST(Text, has_a_number_at_its_beginning_or_behind_a_mark) {
  EXPECT_EQ(leading_number("12-7"), 12);
  EXPECT_EQ(number_behind("process rank 2 on node h3", "rank "), 2);
  EXPECT_EQ(number_behind("1-3:2", ":"), 2);
  for (const char* text : {"", "x1", "-1", "9223372036854775808"})
    EXPECT_EQ(leading_number(text), std::nullopt) << text;
  EXPECT_EQ(number_behind("rank two", "rank "), std::nullopt);
  EXPECT_EQ(number_behind("host 2", "rank "), std::nullopt);
}

TEST(Counted, has_the_noun_in_its_number) {
  EXPECT_EQ(counted(1, "file"), "1 file");
  EXPECT_EQ(counted(0, "file"), "0 files");
  EXPECT_EQ(counted(2, "saved step"), "2 saved steps");
  EXPECT_EQ(counted(2, "copy"), "2 copies");
  EXPECT_EQ(counted(2, "key"), "2 keys");
  EXPECT_EQ(counted(2, "box"), "2 boxes");
  EXPECT_EQ(is_or_are(1), "is");
  EXPECT_EQ(is_or_are(0), "are");
}

}  // namespace
}  // namespace sluice
