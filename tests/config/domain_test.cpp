#include "config/domain.hpp"

#include "base/bytes.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(TomlText, keeps_floats_apart_from_integers) {
  EXPECT_EQ(toml_text(std::int64_t{3}), "3");
  EXPECT_EQ(toml_text(3.0), "3.0");
  EXPECT_EQ(toml_text(1e-8), "1e-08");
  EXPECT_EQ(toml_text(0.1), "0.1");
  EXPECT_EQ(toml_text(std::vector<double>{0.9, 1}), "[0.9, 1.0]");
}

TEST(TomlText, escapes_strings) {
  EXPECT_EQ(toml_text(std::string("a\"b\\c\n\x7f")), R"("a\"b\\c\u000a\u007f")");
  EXPECT_EQ(toml_text(std::string("\xc3\xa4")), "\"\xc3\xa4\"");
}

TEST(Integer, holds_its_bounds_and_refuses_other_types) {
  const Integer integer{1, 8};
  EXPECT_EQ(integer.parse(std::int64_t{1}), 1);
  EXPECT_EQ(integer.parse(std::int64_t{8}), 8);
  EXPECT_FALSE(integer.parse(std::int64_t{0}));
  EXPECT_FALSE(integer.parse(std::int64_t{9}));
  EXPECT_FALSE(integer.parse(3.0));
  EXPECT_FALSE(integer.parse(std::string("3")));
  EXPECT_FALSE(integer.parse(true));
}

TEST(Real, takes_integers_and_refuses_what_is_not_finite) {
  const Real real{0, 100};
  EXPECT_EQ(real.parse(std::int64_t{1}), 1.0);
  EXPECT_EQ(real.parse(0.5), 0.5);
  EXPECT_FALSE(real.parse(std::nan("")));
  EXPECT_FALSE(real.parse(kInfinity));
  EXPECT_FALSE(real.parse(-kInfinity));
  EXPECT_FALSE(real.parse(-1e-300));
  EXPECT_FALSE(real.parse(true));
}

TEST(Real, has_one_zero) { EXPECT_FALSE(std::signbit(*Real{0, 1}.parse(-0.0))); }

TEST(Steps, are_a_number_or_a_range_or_none) {
  const Steps steps;
  const auto range_of = [&](const Value& value) {
    const std::optional<StepRange> range = steps.parse(value);
    return range ? std::pair(range->first, range->last) : std::pair<std::int64_t, std::int64_t>(-1, -1);
  };
  EXPECT_EQ(range_of(std::string("10-12")), std::pair(std::int64_t{10}, std::int64_t{12}));
  EXPECT_EQ(range_of(std::string("7")), std::pair(std::int64_t{7}, std::int64_t{7}));
  EXPECT_EQ(range_of(std::int64_t{7}), std::pair(std::int64_t{7}, std::int64_t{7}));
  EXPECT_EQ(range_of(std::string()), std::pair(std::int64_t{0}, std::int64_t{0}));
  for (const char* text : {"12-10", "0", "0-3", "-3", "3-", "3--4", "3-4-5", "3 - 4", "x", "1-99999999999",
                           "1-99999999999999999999"})
    EXPECT_FALSE(steps.parse(std::string(text))) << text;
  EXPECT_FALSE(steps.parse(std::int64_t{0}));
  EXPECT_FALSE(steps.parse(2.0));
  for (const char* text : {"", "7", "10-12"})
    EXPECT_EQ(steps.spell(*steps.parse(std::string(text))), Value(std::string(text)));
}

TEST(Betas, are_two_numbers_below_one) {
  const Betas betas;
  EXPECT_EQ(betas.parse(std::vector<double>{0, 0.999}), (std::array<double, 2>{0, 0.999}));
  EXPECT_FALSE(betas.parse(std::vector<double>{0.9, 1}));
  EXPECT_FALSE(betas.parse(std::vector<double>{0.9}));
  EXPECT_FALSE(betas.parse(std::vector<double>{0.9, 0.9, 0.9}));
  EXPECT_FALSE(betas.parse(std::vector<double>{0.9, std::nan("")}));
  EXPECT_FALSE(betas.parse(0.9));
}

TEST(Bytes, takes_texts_with_a_unit_within_bounds) {
  const Bytes bytes{64 * kKiB, kGiB};
  EXPECT_EQ(bytes.parse(std::string("8MiB")), 8 * kMiB);
  EXPECT_EQ(bytes.parse(std::string("65536B")), 64 * kKiB);
  EXPECT_FALSE(bytes.parse(std::int64_t{65536})) << "of what unit?";
  EXPECT_EQ((Bytes{0, kGiB}.parse(std::int64_t{0})), 0);
  EXPECT_FALSE(bytes.parse(std::string("63KiB")));
  EXPECT_FALSE(bytes.parse(std::string("1025MiB")));
  EXPECT_FALSE(bytes.parse(std::int64_t{-1}));
  EXPECT_FALSE(bytes.parse(1e6));
}

TEST(Bytes, spells_sizes_so_that_they_read_back) {
  const Bytes bytes{0, kGiB * 1024 * 1024};
  for (const std::int64_t size : std::initializer_list<std::int64_t>{
           0, 1, 1000, 1023, 8 * kMiB, 5'000'000'000, kGiB + 1, 1024 * kGiB, (std::int64_t{1} << 50) - 1})
    EXPECT_EQ(bytes.parse(bytes.spell(size)), size);
  EXPECT_EQ(bytes.spell(8 * kMiB), Value("8MiB"));
  EXPECT_EQ(bytes.spell(5'000'000'000), Value("5GB"));
}

TEST(BytesOrAuto, takes_a_size_or_the_word_that_stands_for_none) {
  const BytesOrAuto bytes{kMiB, kGiB};
  EXPECT_EQ(bytes.parse(std::string("auto")), 0);
  EXPECT_EQ(bytes.parse(std::string("8MiB")), 8 * kMiB);
  EXPECT_FALSE(bytes.parse(std::string("8KiB")));
  EXPECT_FALSE(bytes.parse(std::int64_t{0})) << "no limit is spelled auto";
  EXPECT_EQ(bytes.spell(0), Value("auto"));
  EXPECT_EQ(bytes.spell(8 * kMiB), Value("8MiB"));
}

TEST(Path, refuses_text_that_a_system_would_cut_or_mangle) {
  const Path path;
  EXPECT_EQ(path.parse(std::string("runs/\xc3\xa4 b")), "runs/\xc3\xa4 b");
  EXPECT_FALSE(path.parse(std::string()));
  EXPECT_FALSE(path.parse(std::string("a\0b", 3)));
  EXPECT_FALSE(path.parse(std::string("a\nb")));
  EXPECT_FALSE(path.parse(std::string("\xff")));
  EXPECT_TRUE(Path{true}.parse(std::string()));
}

TEST(Choice, knows_its_words) {
  const Choice<int> choice{{{"one", 1}, {"two", 2}}};
  EXPECT_EQ(choice.parse(std::string("two")), 2);
  EXPECT_FALSE(choice.parse(std::string("One")));
  EXPECT_FALSE(choice.parse(std::int64_t{1}));
  EXPECT_EQ(choice.expected(), "\"one\" or \"two\"");
}

TEST(Domain, one_path_or_a_list_of_them) {
  using List = std::vector<std::filesystem::path>;
  EXPECT_EQ(Paths().parse(std::string("a b")), List{"a b"});
  EXPECT_EQ(Paths().parse(std::vector<std::string>{"a", "b"}), (List{"a", "b"}));
  EXPECT_EQ(Paths().parse(std::string()), List());
  EXPECT_EQ(Paths().parse(std::vector<double>()), List()) << "an empty list has no kind";
  EXPECT_FALSE(Paths().parse(std::vector<std::string>{"a", ""}));
  EXPECT_FALSE(Paths().parse(std::vector<double>{1}));
  for (const List& paths : {List(), List{"a"}, List{"a", "b"}})
    EXPECT_EQ(Paths().parse(Paths().spell(paths)), paths);
  EXPECT_EQ(toml_text(Paths().spell({"a", "\"b\""})), R"(["a", "\"b\""])");
}

}  // namespace
}  // namespace sluice
