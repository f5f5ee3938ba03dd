#include "corpus/source/text_cut.hpp"

#include "base/bytes.hpp"
#include "io/file.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <string>

namespace sluice::corpus {
namespace {

namespace fs = std::filesystem;

/// Bytes before and behind the wanted place that are looked at.
constexpr std::int64_t kNear = 64 * kKiB;

std::string read_part(const InputFile& file, std::int64_t begin, std::int64_t end) {
  std::string text(static_cast<std::size_t>(end - begin), '\0');
  file.read_at(begin, std::as_writable_bytes(std::span(text)));
  return text;
}

bool ends_line(std::string_view text, std::size_t at) { return text[at - 1] == '\n'; }

bool ends_word(std::string_view text, std::size_t at) { return text[at - 1] == ' ' || text[at - 1] == '\t'; }

/// Behind a blank line, whose line break is at `at` - 1.
bool ends_paragraph(std::string_view text, std::size_t at) {
  if (!ends_line(text, at) || at < 2) return false;
  const std::size_t last = text.find_last_not_of(" \t\r", at - 2);
  return last != std::string_view::npos && text[last] == '\n';
}

/// Returns the end of a unit nearest to `wanted`, at most `most` bytes away and with text on both sides; 0 if
/// there is none.
std::size_t nearest(std::string_view text, std::size_t wanted, std::size_t most,
                    const std::function<bool(std::string_view, std::size_t)>& is_end) {
  for (std::size_t away = 0; away <= most; ++away) {
    if (away < wanted && wanted - away < text.size() && is_end(text, wanted - away)) return wanted - away;
    if (wanted + away < text.size() && is_end(text, wanted + away)) return wanted + away;
  }
  return 0;
}

}  // namespace

bool holds_separator(const fs::path& path, std::string_view separator) {
  if (separator.empty()) return false;
  const InputFile file = InputFile::open(path);
  const auto overlap = std::ssize(separator) - 1;
  for (std::int64_t begin = 0; begin < file.size_bytes(); begin += kMiB) {
    const std::int64_t end = std::min(file.size_bytes(), begin + kMiB + overlap);
    const std::string text = read_part(file, begin, end);
    const std::size_t found = text.find(separator);
    if (found != std::string::npos &&
        begin + static_cast<std::int64_t>(found + separator.size()) < file.size_bytes())
      return true;
  }
  return false;
}

std::int64_t holdout_begin(const fs::path& path, double share) {
  const InputFile file = InputFile::open(path);
  const auto held = static_cast<std::int64_t>(std::llround(share * static_cast<double>(file.size_bytes())));
  const std::int64_t wanted = file.size_bytes() - held;
  const std::int64_t begin = std::max<std::int64_t>(0, wanted - kNear);
  const std::string text = read_part(file, begin, std::min(file.size_bytes(), wanted + kNear));
  const auto at = static_cast<std::size_t>(wanted - begin);
  const auto half = static_cast<std::size_t>(std::min({held, wanted, 2 * kNear}) / 2);
  std::size_t found = nearest(text, at, half, ends_paragraph);
  if (found == 0) found = nearest(text, at, half, ends_line);
  if (found == 0) found = nearest(text, at, kNear, ends_line);
  if (found == 0) found = nearest(text, at, kNear, ends_word);
  return found == 0 ? 0 : begin + static_cast<std::int64_t>(found);
}

}  // namespace sluice::corpus
