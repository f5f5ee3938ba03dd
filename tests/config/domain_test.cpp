#include "config/domain.hpp"

#include "base/bytes.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

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
  EXPECT_EQ(integer.parse(std::int64_t{1}).value, 1);
  EXPECT_EQ(integer.parse(std::int64_t{8}).value, 8);
  EXPECT_FALSE(integer.parse(std::int64_t{0}).value);
  EXPECT_FALSE(integer.parse(std::int64_t{9}).value);
  EXPECT_FALSE(integer.parse(3.0).value);
  EXPECT_FALSE(integer.parse(std::string("3")).value);
  EXPECT_FALSE(integer.parse(true).value);
}

TEST(Integer, tells_known_values_from_wrong_ones) {
  const Integer integer{1, 1, 0, "others"};
  EXPECT_TRUE(integer.parse(std::int64_t{0}).later);
  EXPECT_TRUE(integer.parse(std::int64_t{3}).later);
  EXPECT_FALSE(integer.parse(std::int64_t{-1}).later);
}

TEST(Real, takes_integers_and_refuses_what_is_not_finite) {
  const Real real{0, 100};
  EXPECT_EQ(real.parse(std::int64_t{1}).value, 1.0);
  EXPECT_EQ(real.parse(0.5).value, 0.5);
  EXPECT_FALSE(real.parse(std::nan("")).value);
  EXPECT_FALSE(real.parse(kInfinity).value);
  EXPECT_FALSE(real.parse(-kInfinity).value);
  EXPECT_FALSE(real.parse(-1e-300).value);
  EXPECT_FALSE(real.parse(true).value);
}

TEST(Real, has_one_zero) { EXPECT_FALSE(std::signbit(*Real{0, 1}.parse(-0.0).value)); }

TEST(Betas, are_two_numbers_below_one) {
  const Betas betas;
  EXPECT_EQ(betas.parse(std::vector<double>{0, 0.999}).value, (std::array<double, 2>{0, 0.999}));
  EXPECT_FALSE(betas.parse(std::vector<double>{0.9, 1}).value);
  EXPECT_FALSE(betas.parse(std::vector<double>{0.9}).value);
  EXPECT_FALSE(betas.parse(std::vector<double>{0.9, 0.9, 0.9}).value);
  EXPECT_FALSE(betas.parse(std::vector<double>{0.9, std::nan("")}).value);
  EXPECT_FALSE(betas.parse(0.9).value);
}

TEST(Bytes, takes_texts_with_a_unit_within_bounds) {
  const Bytes bytes{64 * kKiB, kGiB};
  EXPECT_EQ(bytes.parse(std::string("8MiB")).value, 8 * kMiB);
  EXPECT_EQ(bytes.parse(std::string("65536B")).value, 64 * kKiB);
  EXPECT_FALSE(bytes.parse(std::int64_t{65536}).value) << "of what unit?";
  EXPECT_EQ((Bytes{0, kGiB}.parse(std::int64_t{0}).value), 0);
  EXPECT_FALSE(bytes.parse(std::string("63KiB")).value);
  EXPECT_FALSE(bytes.parse(std::string("1025MiB")).value);
  EXPECT_FALSE(bytes.parse(std::int64_t{-1}).value);
  EXPECT_FALSE(bytes.parse(1e6).value);
}

TEST(Bytes, spells_sizes_so_that_they_read_back) {
  const Bytes bytes{0, kGiB * 1024 * 1024};
  for (const std::int64_t size : std::initializer_list<std::int64_t>{
           0, 1, 1000, 1023, 8 * kMiB, 5'000'000'000, kGiB + 1, 1024 * kGiB, (std::int64_t{1} << 50) - 1})
    EXPECT_EQ(bytes.parse(bytes.spell(size)).value, size);
  EXPECT_EQ(bytes.spell(8 * kMiB), Value("8MiB"));
  EXPECT_EQ(bytes.spell(5'000'000'000), Value("5GB"));
}

TEST(BytesOrAuto, takes_a_size_or_the_word_that_stands_for_none) {
  const BytesOrAuto bytes{kMiB, kGiB};
  EXPECT_EQ(bytes.parse(std::string("auto")).value, 0);
  EXPECT_EQ(bytes.parse(std::string("8MiB")).value, 8 * kMiB);
  EXPECT_FALSE(bytes.parse(std::string("8KiB")).value);
  EXPECT_FALSE(bytes.parse(std::int64_t{0}).value) << "no limit is spelled auto";
  EXPECT_EQ(bytes.spell(0), Value("auto"));
  EXPECT_EQ(bytes.spell(8 * kMiB), Value("8MiB"));
}

TEST(Path, refuses_text_that_a_system_would_cut_or_mangle) {
  const Path path;
  EXPECT_EQ(path.parse(std::string("runs/\xc3\xa4 b")).value, "runs/\xc3\xa4 b");
  EXPECT_FALSE(path.parse(std::string()).value);
  EXPECT_FALSE(path.parse(std::string("a\0b", 3)).value);
  EXPECT_FALSE(path.parse(std::string("a\nb")).value);
  EXPECT_FALSE(path.parse(std::string("\xff")).value);
  EXPECT_TRUE(Path{true}.parse(std::string()).value);
}

TEST(Choice, knows_available_later_and_unknown_words) {
  const Choice<int> choice{{{"one", 1}, {"two", 2}, {"three", 3, false}}};
  EXPECT_EQ(choice.parse(std::string("two")).value, 2);
  EXPECT_TRUE(choice.parse(std::string("three")).later);
  EXPECT_FALSE(choice.parse(std::string("One")).value);
  EXPECT_FALSE(choice.parse(std::int64_t{1}).value);
  EXPECT_EQ(choice.expected(), "\"one\" or \"two\"");
  EXPECT_EQ(choice.later(), "\"three\"");
}

TEST(Domain, one_path_or_a_list_of_them) {
  using List = std::vector<std::filesystem::path>;
  EXPECT_EQ(Paths().parse(std::string("a b")).value, List{"a b"});
  EXPECT_EQ(Paths().parse(std::vector<std::string>{"a", "b"}).value, (List{"a", "b"}));
  EXPECT_EQ(Paths().parse(std::string()).value, List());
  EXPECT_EQ(Paths().parse(std::vector<double>()).value, List()) << "an empty list has no kind";
  EXPECT_FALSE(Paths().parse(std::vector<std::string>{"a", ""}).value);
  EXPECT_FALSE(Paths().parse(std::vector<double>{1}).value);
  for (const List& paths : {List(), List{"a"}, List{"a", "b"}})
    EXPECT_EQ(Paths().parse(Paths().spell(paths)).value, paths);
  EXPECT_EQ(toml_text(Paths().spell({"a", "\"b\""})), R"(["a", "\"b\""])");
}

}  // namespace
}  // namespace sluice
