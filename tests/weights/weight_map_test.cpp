#include "weights/weight_map.hpp"

#include "weights/tiny_model.hpp"

#include <gmock/gmock.h>

namespace sluice {
namespace {

using test::error_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string error_in(const std::string& json) {
  return error_of([&] { static_cast<void>(parse_weight_map(json, "index.json")); });
}

TEST(WeightMap, reads_files_tensors_and_total_size) {
  const WeightMap map = parse_weight_map(
      R"({"metadata": {"total_size": 12, "more": [1, {"a": null}]}, "weight_map": {"a": "x", "b": "s/y", )"
      R"("c": "x"}})",
      "i");
  EXPECT_THAT(map.files, testing::ElementsAre("x", "s/y"));
  EXPECT_EQ(map.tensors.at("a"), 0);
  EXPECT_EQ(map.tensors.at("b"), 1);
  EXPECT_EQ(map.tensors.at("c"), 0);
  EXPECT_EQ(map.total_size, 12);
}

TEST(WeightMap, refuses_names_that_lead_out_of_the_directory) {
  for (const std::string name : {"../x", "/etc/passwd", "a/../../x", "", ".", "..", "a/", "a/.", "./", "./..",
                                 "./../x", "a/../b", ".//etc/../..", "//x", "a\\u0000b"})
    EXPECT_THAT(error_in(R"({"weight_map": {"t": ")" + name + "\"}}"),
                AllOf(StartsWith("65: index.json"), HasSubstr("outside the model directory")))
        << name;
}

TEST(WeightMap, takes_a_name_for_the_file_that_it_leads_to) {
  const WeightMap map = parse_weight_map(
      R"({"weight_map": {"a": "./x", "b": "x", "c": "././s//y", "d": "s/./y", "e": "..x"}})", "i");
  EXPECT_THAT(map.files, testing::ElementsAre("x", "s/y", "..x"));
  EXPECT_EQ(map.tensors.at("a"), map.tensors.at("b"));
  EXPECT_EQ(map.tensors.at("c"), map.tensors.at("d"));
}

TEST(WeightMap, refuses_a_key_given_twice_however_it_is_spelled) {
  EXPECT_THAT(error_in(R"({"weight_map": {"ab": "x", "a\u0062": "y"}})"), HasSubstr("\"ab\" is there twice"));
  EXPECT_THAT(error_in(R"({"weight_map": {}, "weight_map": {}})"),
              HasSubstr("\"weight_map\" is there twice"));
}

TEST(WeightMap, refuses_other_shapes_of_document) {
  EXPECT_THAT(error_in("[]"), HasSubstr("not an array"));
  EXPECT_THAT(error_in("3"), HasSubstr("not a number"));
  EXPECT_THAT(error_in("{}"), HasSubstr("no object \"weight_map\""));
  EXPECT_THAT(error_in(R"({"metadata": {"weight_map": {"a": "b"}}})"), HasSubstr("no object \"weight_map\""));
  EXPECT_THAT(error_in(R"([{"weight_map": {"a": "b"}}])"), HasSubstr("must be an object"));
  EXPECT_THAT(error_in(R"({"weight_map": "x"})"), HasSubstr("weight_map must be an object"));
  EXPECT_THAT(error_in(R"({"weight_map": {"t": 1}})"),
              AllOf(HasSubstr("weight_map[\"t\"]"), HasSubstr("file name, not a number")));
  EXPECT_THAT(error_in(R"({"weight_map": {"t": {"u": "v"}}})"), HasSubstr("file name, not an object"));
  EXPECT_THAT(error_in(R"({"weight_map": {"t": ["v"]}})"), HasSubstr("file name, not an array"));
}

TEST(WeightMap, refuses_broken_json) {
  EXPECT_THAT(error_in(""), HasSubstr("is not JSON"));
  EXPECT_THAT(error_in(R"({"weight_map": {"t": "x")"), HasSubstr("is not JSON"));
  EXPECT_THAT(error_in("{\"weight_map\": {\"\xff\": \"x\"}}"), HasSubstr("is not JSON"));
  EXPECT_THAT(error_in(R"({"weight_map": {}} {})"), HasSubstr("is not JSON"));
}

TEST(WeightMap, refuses_deep_nesting) {
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_THAT(error_in(objects), HasSubstr("more than 16 deep"));
  EXPECT_THAT(error_in("{\"a\":" + std::string(100'000, '[')), HasSubstr("is not JSON"));
}

TEST(WeightMap, takes_a_total_size_of_another_type_for_none) {
  EXPECT_FALSE(parse_weight_map(R"({"metadata": {"total_size": "12"}, "weight_map": {}})", "i").total_size);
  EXPECT_FALSE(parse_weight_map(R"({"metadata": {"total_size": 1e3}, "weight_map": {}})", "i").total_size);
  EXPECT_FALSE(
      parse_weight_map(R"({"metadata": {"total_size": 18446744073709551615}, "weight_map": {}})", "i")
          .total_size);
}

}  // namespace
}  // namespace sluice
