#include "io/safetensors.hpp"

#include "support/expect_error.hpp"
#include "support/source_folder.hpp"
#include "support/temporary_directory.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sys/resource.h>

namespace sluice {
namespace {

using test::expect_error;
using test::TemporaryDirectory;

std::string prefix(std::uint64_t value) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[static_cast<std::size_t>(i)] = static_cast<char>(value >> (8 * i));
  return bytes;
}

/// "name": {...}, as a header spells it.
std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape, offsets);
}

/// A header of those entries.
std::string object(const std::vector<std::string>& entries) {
  return fmt::format("{{{}}}", fmt::join(entries, ","));
}

/// Parses `header` as if `data_bytes` bytes of data followed it.
SafetensorsHeader parse(const std::string& header, std::int64_t data_bytes) {
  return parse_safetensors_header(header, 8 + static_cast<std::int64_t>(header.size()) + data_bytes,
                                  "model.safetensors");
}

/// The header is refused by that rule; the message names the file, the rule and `found`.
void expect_rule(const std::string& rule, const std::string& found, const std::string& header,
                 std::int64_t data_bytes = 4) {
  SCOPED_TRACE(header.substr(0, 200));
  expect_error(ExitCode::kBadData, {"model.safetensors is not a valid", "(rule " + rule + ")", found},
               [&] { static_cast<void>(parse(header, data_bytes)); });
}

/// One entry "w" of float32 with that shape and those offsets is refused.
void expect_entry_rule(const std::string& rule, const std::string& found, const std::string& shape,
                       const std::string& offsets, std::int64_t data_bytes = 4) {
  expect_rule(rule, found, object({entry("w", "F32", shape, offsets)}), data_bytes);
}

void expect_file_rule(const std::string& rule, const std::string& found, const std::string& bytes) {
  const TemporaryDirectory directory;
  const InputFile file = InputFile::open(directory.write("model.safetensors", bytes));
  expect_error(ExitCode::kBadData, {"model.safetensors", "(rule " + rule + ")", found},
               [&] { static_cast<void>(read_safetensors_header(file)); });
}

TEST(SafetensorsPrefix, must_be_there) {
  for (const std::size_t size : {0, 1, 7})
    expect_file_rule("prefix", fmt::format("it has {} bytes", size), std::string(size, '\0'));
}

TEST(SafetensorsPrefix, may_not_pass_the_limit) {
  expect_file_rule("header-limit", "100000001", prefix(100'000'001));
  expect_file_rule("header-limit", "9223372036854775808", prefix(std::uint64_t{1} << 63));
  expect_file_rule("header-limit", "18446744073709551608", prefix(~std::uint64_t{0} - 7));
  expect_file_rule("header-limit", "18446744073709551615", prefix(~std::uint64_t{0}));
}

TEST(SafetensorsPrefix, may_not_pass_the_end_of_the_file) {
  expect_file_rule("header-fits", "has 1 bytes", prefix(1));
  expect_file_rule("header-fits", "but the file has 10", prefix(3) + "{}");
  expect_error(ExitCode::kBadData, {"(rule header-fits)"}, [] { static_cast<void>(parse("{}", -1)); });
  expect_error(ExitCode::kBadData, {"(rule header-fits)"},
               [] { static_cast<void>(parse_safetensors_header("{}", -5, "f")); });
}

TEST(SafetensorsPrefix, is_checked_before_anything_is_allocated) {
  const TemporaryDirectory directory;
  const InputFile file = InputFile::open(directory.write("model.safetensors", prefix(100'000'000) + "{}"));
  rusage before{};
  rusage after{};
  ::getrusage(RUSAGE_SELF, &before);
  EXPECT_THROW(static_cast<void>(read_safetensors_header(file)), Error);
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 10'000);
}

TEST(SafetensorsPrefix, of_exactly_the_limit_is_read) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.write("model.safetensors", prefix(100'000'000) + "{}");
  std::filesystem::resize_file(path, 8 + 100'000'000);
  expect_error(ExitCode::kBadData, {"(rule valid-json)", "byte 2", "NUL"},
               [&] { static_cast<void>(read_safetensors_header(InputFile::open(path))); });
}

TEST(SafetensorsFile, that_is_something_else_is_named) {
  expect_file_rule("header-limit", "run git lfs pull",
                   "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n");
  expect_file_rule("header-limit", "web page", "<!DOCTYPE html><html></html>");
  expect_file_rule("header-limit", "pickle", std::string("PK\x03\x04\x00\x00\x08\x08\x00\x00", 10));
  expect_file_rule("header-limit", "GGUF", "GGUF\x03\x01\x01\x01\x01");
  expect_file_rule("header-limit", "HDF5", "\x89HDF\r\n\x1a\n");
}

TEST(SafetensorsHeader, must_be_utf8) {
  const std::string start = "{\"a";
  for (const char* bad : {"\xff", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"})
    expect_rule("valid-utf8", "byte 3", start + bad + "\":1}");
  EXPECT_EQ(parse(object({entry("\xe2\x82\xac\xf0\x9f\x98\x80", "F32", "[1]", "[0,4]")}), 4).entries[0].bytes,
            4);
}

TEST(SafetensorsHeader, must_be_json) {
  for (const char* bad :
       {"", "{", "{\"a", "{\"a\":}", "{} {}", "{},", "}", "{\"a\" 1}", "{'a':1}", "{}//", "nope"})
    expect_rule("valid-json", "stops being JSON", bad, 0);
  expect_rule("valid-json", "byte order mark", "\xef\xbb\xbf{}", 0);
  expect_rule("valid-json", "NUL", std::string("{}\0", 3), 0);
  expect_rule("valid-json", "byte", "{\"\\ud800\":1}", 0);
}

TEST(SafetensorsHeader, may_have_blanks_around_it) {
  EXPECT_TRUE(parse(" \t\r\n{} \t\r\n", 0).entries.empty());
}

TEST(SafetensorsHeader, must_be_an_object) {
  for (const char* bad : {"[]", "1", "null", "\"x\"", "true", "-1", "1.5"})
    expect_rule("header-object", "not a JSON object", bad);
  for (const char* bad : {"[1]", "1", "null", "\"x\"", "false", "-1", "1.5"})
    expect_rule("entry-object", "entry 'w'", fmt::format(R"({{"w":{}}})", bad));
}

TEST(SafetensorsHeader, may_not_repeat_a_key) {
  const std::string first = entry("a", "F32", "[1]", "[0,4]");
  expect_rule("duplicate-key", "'a' appears twice", object({first, first}));
  expect_rule("duplicate-key", "'a' appears twice", object({first, entry("\\u0061", "F32", "[1]", "[4,8]")}),
              8);
  expect_rule("duplicate-key", "'__metadata__'", R"({"__metadata__":{},"__metadata__":{}})", 0);
  expect_rule("duplicate-key", "'k' twice", R"({"__metadata__":{"k":"1","\u006b":"2"}})", 0);
  expect_rule("duplicate-key", "tensor 'a': shape",
              R"({"a":{"shape":[1],"shape":[1],"dtype":"F32","data_offsets":[0,4]}})");
}

TEST(SafetensorsHeader, metadata_maps_text_to_text) {
  const SafetensorsHeader header = parse(R"({"__metadata__":{"format":"pt","empty":""}})", 0);
  EXPECT_EQ(header.metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"empty", ""}}));
  EXPECT_TRUE(parse(R"({"__metadata__":null})", 0).metadata.empty());
  for (const char* bad : {"1", "null", "{}", "[\"x\"]", "true"})
    expect_rule("metadata-text", "'k'", fmt::format(R"({{"__metadata__":{{"k":{}}}}})", bad), 0);
}

TEST(SafetensorsHeader, unknown_fields_of_a_tensor_are_ignored) {
  const std::string header = R"({"w":{"dtype":"F32","x":{"shape":[[1,{"y":null}]]})"
                             R"(,"shape":[1],"z":-1.5,"data_offsets":[0,4],"t":"text"}})";
  EXPECT_EQ(parse(header, 4).entries[0].shape, std::vector<std::int64_t>{1});
}

TEST(SafetensorsHeader, deep_nesting_is_refused_in_bounded_stack) {
  const std::string deep(100'000, '[');
  expect_rule("nesting", "levels deep", R"({"w":{"x":)" + deep);
  expect_rule("entry-object", "a list", R"({"w":)" + deep);
  expect_rule("header-object", "a list", deep);
  expect_rule("shape-entries", "a list", R"({"w":{"shape":)" + deep);
}

TEST(SafetensorsHeader, huge_numbers_are_refused) {
  expect_entry_rule("valid-json", "stops being JSON", "[" + std::string(10'000'000, '9') + "]", "[0,4]");
  expect_entry_rule("shape-entries", "a whole number", "[1" + std::string(30, '0') + "]", "[0,4]");
}

TEST(SafetensorsEntry, needs_all_its_fields) {
  expect_rule("missing-field", "no dtype", R"({"w":{"shape":[1],"data_offsets":[0,4]}})");
  expect_rule("missing-field", "no shape", R"({"w":{"dtype":"F32","data_offsets":[0,4]}})");
  expect_rule("missing-field", "no data_offsets", R"({"w":{"dtype":"F32","shape":[1]}})");
}

TEST(SafetensorsEntry, fields_have_their_types) {
  for (const char* bad : {"1", "null", "[\"F32\"]", "{}", "true"})
    expect_rule("field-type", "dtype",
                fmt::format(R"({{"w":{{"dtype":{},"shape":[1],"data_offsets":[0,4]}}}})", bad));
  for (const char* bad : {"1", "null", "\"[1]\"", "{}", "-1"}) {
    expect_entry_rule("field-type", "shape", bad, "[0,4]");
    expect_entry_rule("field-type", "data_offsets", "[1]", bad);
  }
}

TEST(SafetensorsEntry, shape_entries_are_whole_numbers_from_0) {
  for (const char* bad : {"-1", "-0", "1.0", "1e3", "\"2\"", "null", "true", "[1]", "{}",
                          "9223372036854775808", "18446744073709551616"}) {
    expect_entry_rule("shape-entries", "tensor 'w': shape", fmt::format("[{}]", bad), "[0,4]");
    expect_entry_rule("offset-entries", "tensor 'w': data_offsets", "[1]", fmt::format("[0,{}]", bad));
  }
}

TEST(SafetensorsEntry, has_at_most_16_dimensions) {
  EXPECT_EQ(parse(object({entry("w", "F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]")}), 4)
                .entries[0]
                .shape.size(),
            16u);
  expect_entry_rule("shape-rank", "more than 16", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]");
}

TEST(SafetensorsEntry, has_two_offsets) {
  expect_entry_rule("offset-pair", "0 entries", "[1]", "[]");
  expect_entry_rule("offset-pair", "1 entries", "[1]", "[0]");
  expect_entry_rule("offset-pair", "more than two", "[1]", "[0,4,4]");
}

TEST(SafetensorsEntry, offsets_lie_in_the_data_in_order) {
  expect_entry_rule("offset-order", "backwards", "[1]", "[4,0]");
  expect_entry_rule("offset-range", "which has 4 bytes", "[2]", "[0,8]");
  expect_entry_rule("offset-range", "9223372036854775807", "[1]", "[0,9223372036854775807]");
}

TEST(SafetensorsEntry, element_type_is_a_known_one) {
  for (const char* bad : {"F4", "f32", "", "float32", "C64"})
    expect_rule("dtype", fmt::format("'{}'", bad), object({entry("w", bad, "[1]", "[0,4]")}));
}

TEST(SafetensorsEntry, every_element_type_is_read) {
  for (const char* name : {"F32", "BF16", "F16", "F64", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64",
                           "BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0"}) {
    const std::int64_t bytes = 3 * size_of(*dtype_from_safetensors(name));
    const SafetensorsHeader header =
        parse(object({entry("w", name, "[3]", fmt::format("[0,{}]", bytes))}), bytes);
    EXPECT_EQ(safetensors_name(header.entries[0].dtype), name);
    EXPECT_EQ(header.entries[0].bytes, bytes);
  }
}

TEST(SafetensorsEntry, products_may_not_overflow) {
  expect_entry_rule("shape-overflow", "[4294967296, 4294967296]", "[4294967296,4294967296]", "[0,0]", 0);
  expect_entry_rule("shape-overflow", "too many", "[2,9223372036854775807]", "[0,0]", 0);
  expect_entry_rule("shape-overflow", "too many", "[4611686018427387904]", "[0,0]", 0);
}

TEST(SafetensorsEntry, size_is_that_of_the_shape) {
  expect_entry_rule("size-matches-shape", "shape [2] of F32 needs 8 bytes", "[2]", "[0,4]");
  expect_entry_rule("size-matches-shape", "needs 4 bytes", "[1]", "[0,8]", 8);
  expect_entry_rule("size-matches-shape", "needs 0 bytes", "[0]", "[0,4]");
}

TEST(SafetensorsEntry, names_are_bounded_and_shown_printable) {
  expect_rule("name-length", "1000000 bytes",
              object({entry(std::string(1'000'000, 'n'), "F32", "[1]", "[0,4]")}));
  expect_rule("dtype", "tensor 'a\\x1b[31m\\x0a'", object({entry("a\\u001b[31m\\n", "F5", "[1]", "[0,4]")}));
  try {
    static_cast<void>(parse(object({fmt::format("\"{}\":1", std::string(1'000'000, 'n'))}), 0));
  } catch (const Error& error) {
    EXPECT_LT(std::string(error.what()).size(), 1000u);
  }
}

TEST(SafetensorsData, belongs_to_one_tensor_each_byte) {
  const auto two = [](const char* a, const char* b) {
    return object({entry("a", "U8", "[4]", a), entry("b", "U8", "[4]", b)});
  };
  expect_rule("no-overlap", "'b' begins 2 bytes before", two("[0,4]", "[2,6]"), 6);
  expect_rule("no-overlap", "begins 4 bytes before", two("[0,4]", "[0,4]"), 4);
  expect_rule("no-hole", "2 bytes before tensor 'b'", two("[0,4]", "[6,10]"), 10);
  expect_rule("no-hole", "1 bytes before tensor 'a'", two("[1,5]", "[5,9]"), 9);
  expect_rule("no-tail", "3 bytes after", two("[0,4]", "[4,8]"), 11);
  expect_rule("no-tail", "1 bytes after", "{}", 1);
}

TEST(SafetensorsData, entries_come_in_its_order) {
  const SafetensorsHeader header =
      parse(object({entry("late", "U8", "[2]", "[3,5]"), entry("empty", "F32", "[0,7]", "[3,3]"),
                    entry("scalar", "U8", "[]", "[2,3]"), entry("early", "U8", "[2]", "[0,2]")}),
            5);
  std::vector<std::string> names;
  for (const SafetensorsEntry& e : header.entries) names.push_back(e.name);
  EXPECT_THAT(names, testing::ElementsAre("early", "scalar", "empty", "late"));
  EXPECT_EQ(header.entries[0].begin, header.data_begin);
  EXPECT_EQ(header.entries[3].begin, header.data_begin + 3);
  EXPECT_EQ(header.entries[3].bytes, 2);
}

TEST(SafetensorsData, may_begin_at_an_odd_offset) {
  const std::string header = object({entry("w", "F32", "[1]", "[0,4]")}) + std::string(4, ' ');
  EXPECT_EQ(parse(header, 4).entries[0].begin, 8 + static_cast<std::int64_t>(header.size()));
}

TEST(SafetensorsWriter, makes_what_the_reader_reads) {
  std::vector<SafetensorsEntry> entries{{"b", DType::kBFloat16, {3, 5}, 0, 0},
                                        {"a\"\n\xe2\x82\xac", DType::kFloat32, {}, 0, 0},
                                        {"none", DType::kInt64, {0}, 0, 0}};
  const std::string bytes = make_safetensors_header(entries, {{"format", "pt"}});
  EXPECT_EQ(bytes.size() % 8, 0u);
  const SafetensorsHeader header =
      parse_safetensors_header(std::string_view(bytes).substr(8), std::ssize(bytes) + 34, "f");
  EXPECT_EQ(bytes.substr(0, 8), prefix(bytes.size() - 8));
  EXPECT_EQ(header.metadata.at("format"), "pt");
  ASSERT_EQ(header.entries.size(), entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    EXPECT_EQ(header.entries[i].name, entries[i].name);
    EXPECT_EQ(header.entries[i].dtype, entries[i].dtype);
    EXPECT_EQ(header.entries[i].shape, entries[i].shape);
    EXPECT_EQ(header.entries[i].begin, entries[i].begin);
    EXPECT_EQ(header.entries[i].bytes, entries[i].bytes);
  }
}

TEST(SafetensorsWriter, makes_the_bytes_of_the_reference) {
  std::vector<SafetensorsEntry> none;
  EXPECT_EQ(make_safetensors_header(none, {}), prefix(8) + "{}      ");
  std::vector<SafetensorsEntry> one{{"attn.0", DType::kFloat32, {1, 2, 3}, 0, 0}};
  EXPECT_EQ(make_safetensors_header(one, {}),
            prefix(64) + object({entry("attn.0", "F32", "[1,2,3]", "[0,24]")}));
}

TEST(SafetensorsWriter, refuses_names_that_clash) {
  std::vector<SafetensorsEntry> twice(2, {"a", DType::kFloat32, {1}, 0, 0});
  expect_error(ExitCode::kInternal, {"'a' is taken"},
               [&] { static_cast<void>(make_safetensors_header(twice, {})); });
  std::vector<SafetensorsEntry> reserved{{"__metadata__", DType::kFloat32, {1}, 0, 0}};
  expect_error(ExitCode::kInternal, {"taken"},
               [&] { static_cast<void>(make_safetensors_header(reserved, {})); });
  std::vector<SafetensorsEntry> broken{{"\xff", DType::kFloat32, {1}, 0, 0}};
  expect_error(ExitCode::kInternal, {"not UTF-8"},
               [&] { static_cast<void>(make_safetensors_header(broken, {})); });
}

TEST(SafetensorsFixture, has_the_tensors_of_a_published_model) {
  const InputFile file = InputFile::open(fixture_folder() / "qwen3-moe-tiny/model.safetensors");
  const SafetensorsHeader header = read_safetensors_header(file);
  EXPECT_GT(header.entries.size(), 50u);
  EXPECT_EQ(header.metadata.at("format"), "pt");
  EXPECT_EQ(header.entries.back().begin + header.entries.back().bytes, file.size_bytes());
}

}  // namespace
}  // namespace sluice
