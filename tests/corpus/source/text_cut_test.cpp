#include "corpus/source/text_cut.hpp"

#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sluice::corpus {
namespace {

using test::TemporaryDirectory;

std::string times(int count, const std::string& text) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

/// What is held out of such a text; all of it if it has no place to be cut at.
std::string held_out(const std::string& text, double share) {
  const TemporaryDirectory directory;
  return text.substr(static_cast<std::size_t>(holdout_begin(directory.write("a.txt", text), share)));
}

bool is_parted(const std::string& text, const std::string& separator) {
  const TemporaryDirectory directory;
  return holds_separator(directory.write("a.txt", text), separator);
}

TEST(TextCut, is_at_the_end_of_a_paragraph_near_the_share) {
  const std::string paragraph = "one two\nthree four\n\n";  // 20 bytes
  EXPECT_EQ(held_out(times(100, paragraph), 0.1), times(10, paragraph));
  EXPECT_EQ(held_out(times(100, paragraph), 0.104), times(10, paragraph));
  EXPECT_EQ(held_out(times(100, "one\r\n \t\r\n"), 0.5), times(50, "one\r\n \t\r\n"));
}

TEST(TextCut, is_at_the_end_of_a_line_where_no_paragraph_ends_near_and_else_behind_a_space) {
  EXPECT_EQ(held_out(times(100, "one two\n"), 0.25), times(25, "one two\n"));
  EXPECT_EQ(held_out("far\n\n" + times(100, "one two\n"), 0.25), times(25, "one two\n"));
  EXPECT_EQ(held_out(times(100, "word "), 0.1), times(10, "word "));
}

TEST(TextCut, leaves_text_on_both_sides) {
  EXPECT_EQ(held_out("one\ntwo\n", 0.01), "two\n");
  EXPECT_EQ(held_out("one\ntwo\n", 0.9), "two\n");
  for (const char* text : {"", "one", "one\n", "\n"}) EXPECT_EQ(held_out(text, 0.1), text);
}

TEST(TextCut, finds_its_place_in_a_text_of_many_blocks) {
  const std::string text = times(400'000, "a line of it\n");
  const std::string held = held_out(text, 0.3);
  EXPECT_NEAR(static_cast<double>(held.size()), 0.3 * static_cast<double>(text.size()), 20);
  EXPECT_EQ(held.substr(0, 13), "a line of it\n");
}

TEST(TextCut, a_separator_parts_a_text_unless_nothing_is_behind_it) {
  EXPECT_TRUE(is_parted("one<end>two", "<end>"));
  EXPECT_FALSE(is_parted("one two<end>", "<end>"));
  EXPECT_TRUE(is_parted("one two<end>\n", "<end>"));
  EXPECT_FALSE(is_parted("one two", "<end>"));
  EXPECT_FALSE(is_parted("one two", ""));
  const std::string block((1 << 20) - 3, 'x');
  EXPECT_TRUE(is_parted(block + "<end>" + block, "<end>")) << "across two blocks";
  EXPECT_FALSE(is_parted(block + "<end>", "<end>"));
}

}  // namespace
}  // namespace sluice::corpus
