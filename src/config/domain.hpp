// Domains of keys: each converts a TOML value to a member of JobConfig and back, and describes the allowed
// values.
#pragma once

#include "config/choices.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace sluice {

struct Cell;
/// Tables of a list such as [[data.source]], as their keys and values.
using Rows = std::vector<std::vector<Cell>>;

/// A TOML value of a kind that job files use; monostate is any other kind (date, table, mixed array), which
/// no domain allows.
using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<double>,
                           std::vector<std::string>, Rows>;

/// A key of a table in a list, with its value.
struct Cell {
  std::string key;
  Value value;
  bool operator==(const Cell&) const = default;
};

/// `value` spelled in TOML, with as many digits as numbers need to be read back exactly. Requires a value.
[[nodiscard]] std::string toml_text(const Value& value);

// Functions of every domain D of members of type T:
//     std::optional<T> parse(const Value&) const;   nothing for a wrong type or an excluded value
//     Value spell(const T&) const;                  the canonical spelling; parse(spell(x)) is x
//     std::string expected() const;                 "an integer from 1 to 8"

/// Domain of flags: true or false.
struct Flag {
  [[nodiscard]] std::optional<bool> parse(const Value& value) const;
  [[nodiscard]] Value spell(bool flag) const { return flag; }
  [[nodiscard]] std::string expected() const { return "true or false"; }
};

/// Domain of integers in [low, high].
struct Integer {
  std::int64_t low;
  std::int64_t high;
  [[nodiscard]] std::optional<std::int64_t> parse(const Value& value) const;
  [[nodiscard]] Value spell(std::int64_t number) const { return number; }
  [[nodiscard]] std::string expected() const;
};

/// Domain of integers in [low, high], and of a few words, each of which stands for an integer outside this
/// range.
struct NamedInteger {
  struct Name {
    std::string_view name;
    std::int64_t value;
  };
  std::vector<Name> names;
  std::int64_t low;
  std::int64_t high;
  [[nodiscard]] std::optional<std::int64_t> parse(const Value& value) const;
  [[nodiscard]] Value spell(std::int64_t number) const;
  [[nodiscard]] std::string expected() const;
};

/// Domain of steps, counted from 1, as a number or a text: 10, "10" or "10-12"; "" for no steps.
struct Steps {
  [[nodiscard]] std::optional<StepRange> parse(const Value& value) const;
  [[nodiscard]] Value spell(const StepRange& steps) const;
  [[nodiscard]] std::string expected() const { return "a step or steps such as \"10-12\", or \"\" for none"; }
};

/// Domain of finite numbers in [low, high]; integers count as numbers.
struct Real {
  double low;
  double high;
  [[nodiscard]] std::optional<double> parse(const Value& value) const;
  [[nodiscard]] Value spell(double number) const { return number; }
  [[nodiscard]] std::string expected() const;
};

/// Domain of two numbers in [0, 1).
struct Betas {
  [[nodiscard]] std::optional<std::array<double, 2>> parse(const Value& value) const;
  [[nodiscard]] Value spell(const std::array<double, 2>& betas) const {
    return std::vector(betas.begin(), betas.end());
  }
  [[nodiscard]] std::string expected() const { return "two numbers, each at least 0 and below 1"; }
};

/// Domain of byte counts in [low, high]: a string of base/bytes.hpp, or an integer.
struct Bytes {
  std::int64_t low;
  std::int64_t high;
  [[nodiscard]] std::optional<std::int64_t> parse(const Value& value) const;
  [[nodiscard]] Value spell(std::int64_t bytes) const;
  [[nodiscard]] std::string expected() const;
};

/// Domain of byte counts as Bytes, and of "auto", which is 0.
struct BytesOrAuto {
  std::int64_t low;
  std::int64_t high;
  [[nodiscard]] std::optional<std::int64_t> parse(const Value& value) const;
  [[nodiscard]] Value spell(std::int64_t bytes) const;
  [[nodiscard]] std::string expected() const;
};

/// Domain of paths: UTF-8 text without control characters.
struct Path {
  bool may_be_empty = false;
  [[nodiscard]] std::optional<std::filesystem::path> parse(const Value& value) const;
  [[nodiscard]] Value spell(const std::filesystem::path& path) const { return path.string(); }
  [[nodiscard]] std::string expected() const { return may_be_empty ? "a path, or \"\" for none" : "a path"; }
};

/// Domain of one path or a list of paths, each as in Path; "" and [] are empty lists.
struct Paths {
  [[nodiscard]] std::optional<std::vector<std::filesystem::path>> parse(const Value& value) const;
  [[nodiscard]] Value spell(const std::vector<std::filesystem::path>& paths) const;
  [[nodiscard]] std::string expected() const { return "a path or a list of paths, or \"\" for none"; }
};

/// Domain of prefer.reference: a word, or one path or a list of paths of files of scores.
struct Reference {
  [[nodiscard]] std::optional<ReferenceSettings> parse(const Value& value) const;
  [[nodiscard]] Value spell(const ReferenceSettings& reference) const;
  [[nodiscard]] std::string expected() const {
    return "\"auto\", \"base\" or \"start\", or a path or a list of paths of files of scores";
  }
};

/// Domain of one text or a list of texts; "" and [] are empty lists.
struct Texts {
  bool may_have_control_characters = false;

  [[nodiscard]] std::optional<std::vector<std::string>> parse(const Value& value) const;
  [[nodiscard]] Value spell(const std::vector<std::string>& texts) const;
  [[nodiscard]] std::string expected() const { return "a text or a list of texts, or \"\" for none"; }
};

/// Names in quotes as a list in words: "\"a\", \"b\" or \"c\"".
[[nodiscard]] std::string quoted_list(const std::vector<std::string_view>& names);

/// Domain of a few words, each of which stands for a value of an enumeration.
template <class Enum>
struct Choice {
  struct Option {
    std::string_view name;
    Enum value;
  };
  std::vector<Option> options;

  [[nodiscard]] std::optional<Enum> parse(const Value& value) const {
    const std::string* text = std::get_if<std::string>(&value);
    for (const Option& option : options)
      if (text != nullptr && *text == option.name) return option.value;
    return std::nullopt;
  }
  [[nodiscard]] Value spell(Enum value) const {
    for (const Option& option : options)
      if (option.value == value) return std::string(option.name);
    return {};
  }
  [[nodiscard]] std::string expected() const { return quoted_list(names()); }

 private:
  [[nodiscard]] std::vector<std::string_view> names() const {
    std::vector<std::string_view> names;
    for (const Option& option : options) names.push_back(option.name);
    return names;
  }
};

/// Domain of true, false and one word, each of which stands for a value of an enumeration.
template <class Enum>
struct FlagOrWord {
  Enum no;
  Enum yes;
  std::string_view word;
  Enum worded;

  [[nodiscard]] std::optional<Enum> parse(const Value& value) const {
    if (const bool* flag = std::get_if<bool>(&value)) return *flag ? yes : no;
    const std::string* text = std::get_if<std::string>(&value);
    if (text != nullptr && *text == word) return worded;
    return std::nullopt;
  }
  [[nodiscard]] Value spell(Enum value) const {
    if (value == worded) return std::string(word);
    return value == yes;
  }
  [[nodiscard]] std::string expected() const { return "true, false or \"" + std::string(word) + "\""; }
};

}  // namespace sluice
