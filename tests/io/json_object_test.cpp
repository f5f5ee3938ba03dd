#include "io/json_object.hpp"

#include "support/expect_error.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <string>

namespace sluice {
namespace {

using nlohmann::json;

json parse(const std::string& text) { return parse_json_object(text, "it.json: "); }

TEST(JsonObject, takes_the_numbers_that_python_writes_by_name) {
  const json object =
      parse(R"({"a": NaN, "b": [Infinity , -Infinity], "c": {"d":NaN}, "e": 1.5, "f": null})");
  EXPECT_TRUE(std::isnan(object["a"].get<double>()));
  EXPECT_EQ(object["b"][0].get<double>(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(object["b"][1].get<double>(), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(object["c"]["d"].get<double>()));
  EXPECT_EQ(object["e"], 1.5);
  EXPECT_TRUE(object["f"].is_null()) << "null stays what it is";
}

TEST(JsonObject, leaves_texts_and_keys_that_read_like_them_alone) {
  const json object = parse(R"({"NaN": "NaN, Infinity", "a\\": "\"NaN", "b": NaN, "-Infinity": "[NaN]"})");
  EXPECT_EQ(object["NaN"], "NaN, Infinity");
  EXPECT_EQ(object["a\\"], "\"NaN");
  EXPECT_EQ(object["-Infinity"], "[NaN]");
}

TEST(JsonObject, refuses_what_merely_looks_like_them) {
  for (const char* text :
       {R"({"a": nan})", R"({"a": NaNs})", R"({"a": +Infinity})", R"({"a": - Infinity})", R"({"a": Inf})",
        R"({NaN: 1})", R"({"a": NaN NaN})", R"({"a": NaN)", R"(NaN)", R"({"a": "NaN)"})
    test::expect_error(ExitCode::kBadData, {"it.json: "}, [&] { parse(text); });
}

TEST(JsonObject, a_fault_before_the_end_does_not_ask_whether_the_file_was_cut_short) {
  const auto told = [](const std::string& text) {
    try {
      parse(text);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  for (const char* cut :
       {"", "{", R"({"a": "b)", R"({"a": [1, 2)", R"({"a": Na)", R"({"a": NaN, "b": 1)", R"({"a": "\ud83d)"})
    EXPECT_THAT(told(cut), testing::HasSubstr("cut short")) << cut;
  for (const char* wrong : {R"({"a": 1,})", R"({"a": 1} b)", R"({"a": "\ud83d b"})", R"({"a": "\ude00"})",
                            R"({"a": NaN, "b": "\ud83d"})", "{\"a\": \"\n\"}", R"({"a": 1e999})"})
    EXPECT_THAT(told(wrong), testing::AllOf(testing::HasSubstr("not valid JSON"),
                                            testing::Not(testing::HasSubstr("cut short"))))
        << wrong;
  EXPECT_THAT(told(R"({"a": "\ud83d b"})"), testing::HasSubstr("\\u escapes"));
}

TEST(JsonObject, shows_them_by_their_names) {
  EXPECT_EQ(shown_json(parse(R"({"a": NaN})")["a"]), "NaN");
  EXPECT_EQ(shown_json(parse(R"({"a": -Infinity})")["a"]), "-Infinity");
  EXPECT_EQ(shown_json(parse(R"({"a": [1, Infinity]})")["a"]), R"([1,"Infinity"])");
  EXPECT_EQ(shown_json(json("text")), "\"text\"");
}

}  // namespace
}  // namespace sluice
