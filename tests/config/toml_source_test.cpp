#include "config/toml_source.hpp"

#include "base/error.hpp"

#include <gtest/gtest.h>

namespace sluice {
namespace {

/// The text of the Error(kBadConfig) that parse_toml() must throw.
std::string parse_error(const std::string& text) {
  try {
    static_cast<void>(parse_toml(text, "job.toml"));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadConfig);
    return error.what();
  }
  return "accepted";
}

std::string repeated(const std::string& piece, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += piece;
  return out;
}

TEST(ParseToml, gives_entries_in_file_order_with_places) {
  const std::vector<TomlEntry> entries =
      parse_toml("[train]\nsteps = 5\n  order = 'x'\n[data]\nseed = 2024-01-01\n", "f");
  ASSERT_EQ(entries.size(), 5u);
  EXPECT_EQ(entries[0].table, "train");
  EXPECT_EQ(entries[0].key, "");
  EXPECT_EQ(entries[1].where, "f:2:1");
  EXPECT_EQ(entries[1].value, Value(std::int64_t{5}));
  EXPECT_EQ(entries[2].where, "f:3:3");
  EXPECT_EQ(entries[2].found, "\"x\"");
  EXPECT_EQ(entries[4].found, "a date or time");
}

TEST(ParseToml, names_line_and_column_of_a_syntax_error) {
  EXPECT_EQ(parse_error("[job]\nkind = \n").substr(0, 13), "job.toml:2:8:");
  EXPECT_EQ(parse_error("[job]\nkind = 1\nkind = 2\n").substr(0, 11), "job.toml:3:");
  EXPECT_EQ(parse_error("[job\n").substr(0, 11), "job.toml:1:");
}

TEST(ParseToml, refuses_broken_utf8_and_control_bytes) {
  EXPECT_EQ(parse_error("[job]\noutput = \"\xff\xfe\"\n").substr(0, 11), "job.toml:2:");
  EXPECT_EQ(parse_error(std::string("[job]\n\0", 7)).substr(0, 9), "job.toml:");
  EXPECT_EQ(parse_error(std::string(1000, '\x80')).substr(0, 9), "job.toml:");
}

TEST(ParseToml, refuses_deep_nesting_without_deep_recursion) {
  EXPECT_EQ(parse_error("x = " + repeated("[", 300) + repeated("]", 300)).substr(0, 9), "job.toml:");
  EXPECT_EQ(parse_error("x = " + repeated("[", 500000)).substr(0, 9), "job.toml:");
  EXPECT_EQ(parse_error("x = " + repeated("{a=", 300)).substr(0, 9), "job.toml:");
  EXPECT_EQ(parse_error("y = 1\n" + repeated("a.", 400000) + "a = 1").substr(0, 16), "job.toml:2:1: fo");
  EXPECT_EQ(parse_error(fmt::format("[{}a]", repeated("a.", 400000))).substr(0, 16), "job.toml:1:1: fo");
}

TEST(ParseToml, refuses_keys_of_more_than_64_parts_wherever_they_stand) {
  const std::string deep = repeated("a.", 64) + "a", quoted = repeated("\"a.b\" . ", 64) + "'a'";
  for (const std::string& key : {deep, quoted})
    for (const std::string& line :
         {key + " = 1", "[" + key + "]", "[[ " + key + " ]]", "x = {" + key + " = 1}",
          "x = [1.5, {" + key + " = 1}]", "x = {y = 2, " + key + " = 1}", "x = [\n\"a\", {" + key + " = 1}]"})
      EXPECT_NE(parse_error("[job]\ny = 1\n" + line).find("64 parts"), std::string::npos) << line;
  EXPECT_EQ(parse_error("[job]\n" + deep + " = 1\n").substr(0, 13), "job.toml:2:1:");
  // Quotes that a reader of strings may stumble over, before such a key.
  for (const char* text : {R"(x = ["""a"""", {)", R"(x = ["""a\""""", {)", R"(x = ['\', {)",
                           R"(x = ["\"", {)", R"(x = ["", '', {)", R"(x = ["""""", {)", "x = ['''a''''', {",
                           "x = [\"\"\"\n\\\"\"\"\"\", {", "x = 1 # \"\ny = {"})
    EXPECT_NE(parse_error(text + deep + " = 1}]\n").find("64 parts"), std::string::npos) << text;
}

TEST(ParseToml, counts_no_dots_of_strings_numbers_and_comments) {
  const std::string dots = repeated(".", 500);
  EXPECT_TRUE(parse_toml("  # " + dots + "\n", "f").empty());
  for (const std::string& value :
       {"\"" + dots + "\"", "'" + dots + "'", "\"\"\"\n" + dots + "\n\"\"\"", "'''" + dots + "'''  # " + dots,
        "\"\\\"" + dots + "\"", "[" + repeated("1.5, ", 100) + "]",
        "[" + repeated("\"model.layers.*.mlp\", ", 100) + "]"})
    EXPECT_EQ(parse_toml("[a]\nb = " + value + "\n", "f").size(), 2U) << value;
  EXPECT_FALSE(parse_toml(repeated("a.", 63) + "a = 1\n", "f").empty());
}

TEST(ParseToml, survives_the_deepest_tables_that_it_takes) {
  std::string text = "x = ";
  for (int depth = 0; depth < 120; ++depth) text += "[{" + repeated("a.", 63) + "a =\n";
  text += "1";
  for (int depth = 0; depth < 120; ++depth) text += "}]";
  EXPECT_NO_THROW(static_cast<void>(parse_error(text)));
}

TEST(ParseToml, takes_an_empty_text) { EXPECT_TRUE(parse_toml("", "f").empty()); }

TEST(ParseOverride, reads_toml_values) {
  EXPECT_EQ(parse_override("train.steps=5")[1].value, Value(std::int64_t{5}));
  EXPECT_EQ(parse_override("optimizer.eps= 1e-6 ")[1].value, Value(1e-6));
  EXPECT_EQ(parse_override("optimizer.betas=[0.9, 0.99]")[1].value, Value(std::vector<double>{0.9, 0.99}));
  EXPECT_EQ(parse_override("model.path=\"a b\"")[1].value, Value("a b"));
}

TEST(ParseOverride, reads_lists_with_many_dots) {
  const Value value =
      parse_override("train.freeze=[" + repeated("\"model.layers.*.mlp.experts\",", 30) + "]")[1].value;
  ASSERT_TRUE(std::holds_alternative<std::vector<std::string>>(value));
  EXPECT_EQ(std::get<std::vector<std::string>>(value).size(), 30U);
  const std::string deep = "{" + repeated("a.", 64) + "a=1}";
  EXPECT_EQ(parse_override("model.path=" + deep)[1].value, Value(deep));
}

TEST(ParseOverride, takes_other_text_as_a_bare_string) {
  EXPECT_EQ(parse_override("model.path=/x/y.z")[1].value, Value("/x/y.z"));
  EXPECT_EQ(parse_override("job.output=a=b")[1].value, Value("a=b"));
  EXPECT_EQ(parse_override("job.output=2024-01-01")[1].value, Value("2024-01-01"));
  EXPECT_EQ(parse_override("job.output=1\nx=2")[1].value, Value("1\nx=2"));
  EXPECT_EQ(parse_override("load.chunk=8MiB")[1].value, Value("8MiB"));
}

TEST(ParseOverride, refuses_other_forms_as_usage) {
  for (const char* text :
       {"", "=", "steps", "steps=5", "train.steps", ".steps=5", "train.=5", "=train.steps", "x=1.5"}) {
    try {
      static_cast<void>(parse_override(text));
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      EXPECT_EQ(std::string(error.what()), fmt::format("--set {}: expected table.key=value", text));
    }
  }
}

}  // namespace
}  // namespace sluice
