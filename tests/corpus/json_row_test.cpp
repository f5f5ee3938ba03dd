#include "corpus/json_row.hpp"

#include "support/expect_error.hpp"

#include <gmock/gmock.h>

namespace sluice::corpus {
namespace {

using test::expect_error;
using testing::ElementsAre;

TEST(JsonRow, knows_which_keys_nobody_has_asked_for) {
  JsonRow row(R"({"a": "x", "b": null, "c": 1, "d": []})");
  EXPECT_TRUE(row.has("c") && row.has_text("a") && row.at("d").is_array());
  EXPECT_FALSE(row.has("b") || row.has("e") || row.has_text("c"));
  EXPECT_EQ(row.text("a"), "x");
  EXPECT_TRUE(row.take("b").is_null());
  EXPECT_THAT(row.unused(), ElementsAre("c", "d"));
}

TEST(JsonRow, takes_what_python_writes_for_no_number_for_null) {
  JsonRow row(R"({"a": NaN, "b": -Infinity, "c": [Infinity], "d": "NaN \" NaN", "e": "\\", "f": NaN})");
  EXPECT_THAT(row.unused(), ElementsAre("c", "d", "e"));
  EXPECT_EQ(row.text("d"), "NaN \" NaN");
}

TEST(JsonRow, that_is_none_is_refused) {
  expect_error(ExitCode::kBadData, {"not valid JSON"}, [] { JsonRow(R"({"a": NaN)"); });
  expect_error(ExitCode::kBadData, {"JSON array", "object"}, [] { JsonRow("[]"); });
}

}  // namespace
}  // namespace sluice::corpus
