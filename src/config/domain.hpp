// What a key may hold: each domain turns a TOML value into a member of JobConfig, back, and into words.
#pragma once

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
/// Tables of a list, [[data.source]], as their keys and values.
using Rows = std::vector<std::vector<Cell>>;

/// A TOML value as far as job files use them; monostate is any other kind (date, table, mixed array), which
/// no domain takes.
using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<double>,
                           std::vector<std::string>, Rows>;

struct Cell {
  std::string key;
  Value value;
  bool operator==(const Cell&) const = default;
};

/// `value` in TOML's spelling, numbers with as many digits as bring them back exactly. Requires a value.
[[nodiscard]] std::string toml_text(const Value& value);

/// A value read by a domain; or none, and then whether this is a known value that a later version will
/// accept.
template <class T>
struct Parsed {
  std::optional<T> value;
  bool later = false;
};

// Every domain D of members of type T has
//   Parsed<T> parse(const Value&) const;    nothing for a wrong type or an excluded value
//   Value spell(const T&) const;            the canonical spelling; parse(spell(x)) is x
//   std::string expected() const;           "an integer from 1 to 8"
//   std::string later() const;              known values that this version refuses, "" if none

/// true or false, or false alone as long as the feature is missing.
struct Flag {
  bool available = true;
  [[nodiscard]] Parsed<bool> parse(const Value& value) const;
  [[nodiscard]] Value spell(bool flag) const { return flag; }
  [[nodiscard]] std::string expected() const { return available ? "true or false" : "false"; }
  [[nodiscard]] std::string later() const { return available ? "" : "true"; }
};

/// Integers in [low, high]; others from later_low on are known and not available, and later_text says which.
struct Integer {
  std::int64_t low;
  std::int64_t high;
  std::optional<std::int64_t> later_low{};
  std::string later_text{};
  [[nodiscard]] Parsed<std::int64_t> parse(const Value& value) const;
  [[nodiscard]] Value spell(std::int64_t number) const { return number; }
  [[nodiscard]] std::string expected() const;
  [[nodiscard]] std::string later() const { return later_text; }
};

/// Integers in [low, high], or one of a few words, each of which stands for an integer outside.
struct NamedInteger {
  struct Name {
    std::string_view name;
    std::int64_t value;
  };
  std::vector<Name> names;
  std::int64_t low;
  std::int64_t high;
  [[nodiscard]] Parsed<std::int64_t> parse(const Value& value) const;
  [[nodiscard]] Value spell(std::int64_t number) const;
  [[nodiscard]] std::string expected() const;
  [[nodiscard]] std::string later() const { return ""; }
};

/// Finite numbers in [low, high]; integers count as numbers.
struct Real {
  double low;
  double high;
  [[nodiscard]] Parsed<double> parse(const Value& value) const;
  [[nodiscard]] Value spell(double number) const { return number; }
  [[nodiscard]] std::string expected() const;
  [[nodiscard]] std::string later() const { return ""; }
};

/// Two numbers in [0, 1).
struct Betas {
  [[nodiscard]] Parsed<std::array<double, 2>> parse(const Value& value) const;
  [[nodiscard]] Value spell(const std::array<double, 2>& betas) const {
    return std::vector(betas.begin(), betas.end());
  }
  [[nodiscard]] std::string expected() const { return "two numbers, each at least 0 and below 1"; }
  [[nodiscard]] std::string later() const { return ""; }
};

/// Byte counts in [low, high]: a string of base/bytes.hpp, or an integer.
struct Bytes {
  std::int64_t low;
  std::int64_t high;
  [[nodiscard]] Parsed<std::int64_t> parse(const Value& value) const;
  [[nodiscard]] Value spell(std::int64_t bytes) const;
  [[nodiscard]] std::string expected() const;
  [[nodiscard]] std::string later() const { return ""; }
};

/// Byte counts as Bytes, or "auto", which is 0.
struct BytesOrAuto {
  std::int64_t low;
  std::int64_t high;
  [[nodiscard]] Parsed<std::int64_t> parse(const Value& value) const;
  [[nodiscard]] Value spell(std::int64_t bytes) const;
  [[nodiscard]] std::string expected() const;
  [[nodiscard]] std::string later() const { return ""; }
};

/// A path of UTF-8 text without control characters.
struct Path {
  bool may_be_empty = false;
  [[nodiscard]] Parsed<std::filesystem::path> parse(const Value& value) const;
  [[nodiscard]] Value spell(const std::filesystem::path& path) const { return path.string(); }
  [[nodiscard]] std::string expected() const { return may_be_empty ? "a path, or \"\" for none" : "a path"; }
  [[nodiscard]] std::string later() const { return ""; }
};

/// One path as Path has it, or a list of some; "" and [] are none.
struct Paths {
  [[nodiscard]] Parsed<std::vector<std::filesystem::path>> parse(const Value& value) const;
  [[nodiscard]] Value spell(const std::vector<std::filesystem::path>& paths) const;
  [[nodiscard]] std::string expected() const { return "a path or a list of paths, or \"\" for none"; }
  [[nodiscard]] std::string later() const { return ""; }
};

/// One text, or a list of some; "" and [] are none.
struct Texts {
  bool may_have_control_characters = false;

  [[nodiscard]] Parsed<std::vector<std::string>> parse(const Value& value) const;
  [[nodiscard]] Value spell(const std::vector<std::string>& texts) const;
  [[nodiscard]] std::string expected() const { return "a text or a list of texts, or \"\" for none"; }
  [[nodiscard]] std::string later() const { return ""; }
};

/// "\"a\", \"b\" or \"c\""
[[nodiscard]] std::string quoted_list(const std::vector<std::string_view>& names);

/// One of a few words.
template <class Enum>
struct Choice {
  struct Option {
    std::string_view name;
    Enum value;
    bool available = true;
  };
  std::vector<Option> options;

  [[nodiscard]] Parsed<Enum> parse(const Value& value) const {
    const std::string* text = std::get_if<std::string>(&value);
    for (const Option& option : options) {
      if (text == nullptr || *text != option.name) continue;
      if (!option.available) return {std::nullopt, true};
      return {option.value};
    }
    return {};
  }
  [[nodiscard]] Value spell(Enum value) const {
    for (const Option& option : options)
      if (option.value == value) return std::string(option.name);
    return {};
  }
  [[nodiscard]] std::string expected() const { return quoted_list(names(true)); }
  [[nodiscard]] std::string later() const { return quoted_list(names(false)); }

 private:
  [[nodiscard]] std::vector<std::string_view> names(bool available) const {
    std::vector<std::string_view> names;
    for (const Option& option : options)
      if (option.available == available) names.push_back(option.name);
    return names;
  }
};

/// true, false or one word, each of which stands for a value.
template <class Enum>
struct FlagOrWord {
  Enum no;
  Enum yes;
  std::string_view word;
  Enum worded;

  [[nodiscard]] Parsed<Enum> parse(const Value& value) const {
    if (const bool* flag = std::get_if<bool>(&value)) return {*flag ? yes : no};
    const std::string* text = std::get_if<std::string>(&value);
    if (text != nullptr && *text == word) return {worded};
    return {};
  }
  [[nodiscard]] Value spell(Enum value) const {
    if (value == worded) return std::string(word);
    return value == yes;
  }
  [[nodiscard]] std::string expected() const { return "true, false or \"" + std::string(word) + "\""; }
  [[nodiscard]] std::string later() const { return ""; }
};

}  // namespace sluice
