#include "corpus/source/value_scanner.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sluice::corpus {
namespace {

/// The value at the front of a text that comes whole, and the same when it comes byte by byte.
std::string value_at_front(const std::string& text) {
  const std::size_t end = ValueScanner().find_end(text);
  ValueScanner slow;
  std::size_t found = std::string::npos;
  for (std::size_t bytes = 1; bytes <= text.size() && found == std::string::npos; ++bytes)
    found = slow.find_end(std::string_view(text).substr(0, bytes));
  EXPECT_EQ(found, end) << text;
  return end == std::string::npos ? "none" : text.substr(0, end);
}

TEST(ValueScanner, ends_at_the_bracket_that_closes_the_first) {
  EXPECT_EQ(value_at_front(R"({"a": "}", "b": [{}, "]"]}, {})"), R"({"a": "}", "b": [{}, "]"]})");
  EXPECT_EQ(value_at_front(R"([{}]])"), "[{}]");
  EXPECT_EQ(value_at_front(R"({"a": "\"}\\"} )"), R"({"a": "\"}\\"})");
  EXPECT_EQ(value_at_front(R"({"a": "}")"), "none");
}

TEST(ValueScanner, knows_texts_and_numbers) {
  EXPECT_EQ(value_at_front(R"("a \" , b", 1)"), R"("a \" , b")");
  EXPECT_EQ(value_at_front("17, 2"), "17");
  EXPECT_EQ(value_at_front("null]"), "null");
  EXPECT_EQ(value_at_front("}}"), "}") << "at least a byte";
  EXPECT_EQ(value_at_front("17"), "none");
}

}  // namespace
}  // namespace sluice::corpus
