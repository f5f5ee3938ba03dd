#include "config/domain.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace sluice {
namespace {

std::string real_text(double number) {
  std::string text = fmt::format("{}", number);
  // An integer needs a fraction, or TOML would not read it as a float.
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string string_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (code < 0x20 || code == 0x7f) {
      out += fmt::format("\\u{:04x}", code);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string array_text(const std::vector<double>& numbers) {
  std::vector<std::string> texts;
  for (const double number : numbers) texts.push_back(real_text(number));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

/// Rows as TOML inline tables.
std::string rows_text(const Rows& rows) {
  std::vector<std::string> tables;
  for (const std::vector<Cell>& row : rows) {
    std::vector<std::string> cells;
    for (const Cell& cell : row) cells.push_back(fmt::format("{} = {}", cell.key, toml_text(cell.value)));
    tables.push_back(fmt::format("{{{}}}", fmt::join(cells, ", ")));
  }
  return fmt::format("[{}]", fmt::join(tables, ", "));
}

/// The number in a TOML integer or float.
std::optional<double> number_in(const Value& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  return std::nullopt;
}

/// A size in bytes, written in the largest unit that divides it, so that people and parse_bytes() read the
/// same number.
std::string size_text(std::int64_t bytes) {
  struct Unit {
    std::string_view name;
    std::int64_t bytes;
  };
  static constexpr std::array<Unit, 8> kUnits{{{"TiB", 1024 * kGiB},
                                               {"TB", 1'000'000'000'000},
                                               {"GiB", kGiB},
                                               {"GB", 1'000'000'000},
                                               {"MiB", kMiB},
                                               {"MB", 1'000'000},
                                               {"KiB", kKiB},
                                               {"kB", 1000}}};
  for (const Unit& unit : kUnits)
    if (bytes != 0 && bytes % unit.bytes == 0) return fmt::format("{}{}", bytes / unit.bytes, unit.name);
  return bytes == 0 ? "0" : fmt::format("{}B", bytes);
}

}  // namespace

std::string toml_text(const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *integer);
  if (const auto* real = std::get_if<double>(&value)) return real_text(*real);
  if (const auto* text = std::get_if<std::string>(&value)) return string_text(*text);
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    std::vector<std::string> quoted;
    for (const std::string& text : *texts) quoted.push_back(string_text(text));
    return fmt::format("[{}]", fmt::join(quoted, ", "));
  }
  if (const auto* rows = std::get_if<Rows>(&value)) return rows_text(*rows);
  const auto* numbers = std::get_if<std::vector<double>>(&value);
  SLUICE_ASSERT(numbers != nullptr, "a value of no kind has no text");
  return array_text(*numbers);
}

std::string quoted_list(const std::vector<std::string_view>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += i + 1 == names.size() ? " or " : ", ";
    out += fmt::format("\"{}\"", names[i]);
  }
  return out;
}

std::optional<bool> Flag::parse(const Value& value) const {
  const bool* flag = std::get_if<bool>(&value);
  if (flag == nullptr) return {};
  return {*flag};
}

std::optional<std::int64_t> Integer::parse(const Value& value) const {
  const auto* number = std::get_if<std::int64_t>(&value);
  if (number == nullptr) return {};
  if (*number >= low && *number <= high) return {*number};
  return std::nullopt;
}

std::string Integer::expected() const {
  if (low == high) return fmt::format("{}", low);
  if (high == std::numeric_limits<std::int64_t>::max()) return fmt::format("an integer of at least {}", low);
  return fmt::format("an integer from {} to {}", low, high);
}

std::optional<std::int64_t> NamedInteger::parse(const Value& value) const {
  for (const Name& name : names)
    if (value == Value(std::string(name.name))) return {name.value};
  return Integer{low, high}.parse(value);
}

Value NamedInteger::spell(std::int64_t number) const {
  for (const Name& name : names)
    if (name.value == number) return std::string(name.name);
  return number;
}

std::string NamedInteger::expected() const {
  std::string text;
  for (const Name& name : names) text += fmt::format("\"{}\", ", name.name);
  return text + "or " + Integer{low, high}.expected();
}

std::optional<StepRange> Steps::parse(const Value& value) const {
  const Integer numbers{1, 1'000'000'000};
  if (const std::optional<std::int64_t> step = numbers.parse(value)) return {{*step, *step}};
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr) return {};
  if (text->empty()) return {StepRange{}};
  const std::size_t dash = text->find('-');
  const std::optional<std::int64_t> first = whole_number(text->substr(0, dash));
  const std::optional<std::int64_t> last =
      dash == std::string::npos ? first : whole_number(text->substr(dash + 1));
  if (!first || !last || !numbers.parse(*first) || !numbers.parse(*last) || *first > *last) return {};
  return {{*first, *last}};
}

Value Steps::spell(const StepRange& steps) const {
  if (steps.first == 0) return std::string();
  return steps.first == steps.last ? fmt::format("{}", steps.first)
                                   : fmt::format("{}-{}", steps.first, steps.last);
}

std::optional<double> Real::parse(const Value& value) const {
  const std::optional<double> number = number_in(value);
  if (!number || !(*number >= low && *number <= high)) return {};
  return {*number + 0.0};  // -0.0 becomes 0.0, so that equal jobs are spelled alike
}

std::string Real::expected() const { return fmt::format("a number from {:g} to {:g}", low, high); }

std::optional<std::array<double, 2>> Betas::parse(const Value& value) const {
  const auto* numbers = std::get_if<std::vector<double>>(&value);
  if (numbers == nullptr || numbers->size() != 2) return {};
  std::array<double, 2> betas{};
  for (std::size_t i = 0; i < 2; ++i) {
    const double beta = (*numbers)[i];
    if (!(beta >= 0 && beta < 1)) return {};
    betas[i] = beta + 0.0;
  }
  return {betas};
}

std::optional<std::int64_t> Bytes::parse(const Value& value) const {
  std::optional<std::int64_t> bytes;
  if (const auto* number = std::get_if<std::int64_t>(&value); number != nullptr && *number == 0) bytes = 0;
  if (const auto* text = std::get_if<std::string>(&value)) bytes = parse_bytes(*text);
  if (!bytes || *bytes < low || *bytes > high) return {};
  return {bytes};
}

Value Bytes::spell(std::int64_t bytes) const { return size_text(bytes); }

std::optional<std::int64_t> BytesOrAuto::parse(const Value& value) const {
  const auto* text = std::get_if<std::string>(&value);
  if (text != nullptr && *text == "auto") return {0};
  return Bytes{low, high}.parse(value);
}

Value BytesOrAuto::spell(std::int64_t bytes) const { return bytes == 0 ? "auto" : size_text(bytes); }

std::string BytesOrAuto::expected() const { return "\"auto\", or " + Bytes{low, high}.expected(); }

std::string Bytes::expected() const {
  return fmt::format(
      "a size with its unit, such as \"8MiB\" (2^20 B) or \"128.5GB\" (10^9 B), from \"{}\" to \"{}\"",
      size_text(low), size_text(high));
}

std::optional<std::filesystem::path> Path::parse(const Value& value) const {
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr || (text->empty() && !may_be_empty)) return {};
  if (printable(*text, text->size()) != *text) return {};
  return {std::filesystem::path(*text)};
}

std::optional<std::vector<std::string>> Texts::parse(const Value& value) const {
  std::vector<std::string> texts;
  if (const auto* text = std::get_if<std::string>(&value)) {
    if (!text->empty()) texts = {*text};
  } else if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
    texts = *list;
  } else if (const auto* numbers = std::get_if<std::vector<double>>(&value);
             numbers == nullptr || !numbers->empty()) {
    return {};  // an empty list of numbers counts as an empty list of texts
  }
  for (const std::string& text : texts)
    if (text.empty() || (!may_have_control_characters && printable(text, text.size()) != text)) return {};
  return {texts};
}

Value Texts::spell(const std::vector<std::string>& texts) const {
  if (texts.empty()) return std::string();
  if (texts.size() == 1) return texts.front();
  return texts;
}

std::optional<std::vector<std::filesystem::path>> Paths::parse(const Value& value) const {
  const std::optional<std::vector<std::string>> texts = Texts().parse(value);
  if (!texts) return {};
  std::vector<std::filesystem::path> paths;
  for (const std::string& text : *texts) {
    const std::optional<std::filesystem::path> path = Path().parse(text);
    if (!path) return {};
    paths.push_back(*path);
  }
  return paths;
}

Value Paths::spell(const std::vector<std::filesystem::path>& paths) const {
  std::vector<std::string> texts;
  for (const std::filesystem::path& path : paths) texts.push_back(path.string());
  return Texts().spell(texts);
}

namespace {

constexpr std::array<std::pair<std::string_view, PreferenceReference>, 3> kReferences{
    {{"auto", PreferenceReference::kAuto},
     {"base", PreferenceReference::kBase},
     {"start", PreferenceReference::kStart}}};

}  // namespace

std::optional<ReferenceSettings> Reference::parse(const Value& value) const {
  if (const std::string* text = std::get_if<std::string>(&value))
    for (const auto& [word, kind] : kReferences)
      if (*text == word) return ReferenceSettings{kind};
  const std::optional<std::vector<std::filesystem::path>> files = Paths().parse(value);
  if (!files || files->empty()) return {};
  return ReferenceSettings{PreferenceReference::kScores, *files};
}

Value Reference::spell(const ReferenceSettings& reference) const {
  for (const auto& [word, kind] : kReferences)
    if (reference.kind == kind) return std::string(word);
  return Paths().spell(reference.files);
}

}  // namespace sluice
