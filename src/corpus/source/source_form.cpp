#include "corpus/source/source_form.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "corpus/source/magic.hpp"
#include "corpus/source/source_file.hpp"
#include "corpus/source/value_scanner.hpp"
#include "io/json_object.hpp"
#include "text/unicode/unicode.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <span>
#include <string>

namespace sluice::corpus {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBlanks = " \t\r\n\f\v";

/// Examines how far a text is JSON, without keeping any of it.
class JsonExamination : public nlohmann::json_sax<nlohmann::json> {
 public:
  using Bytes = nlohmann::json::binary_t;
  explicit JsonExamination(std::string_view text) : size_(text.size()) {
    is_json_ = nlohmann::json::sax_parse(text.begin(), text.end(), this, nlohmann::json::input_format_t::json,
                                         /*strict=*/false);
  }
  /// Whether the text begins with a whole value, or is the beginning of one.
  [[nodiscard]] bool is_json() const { return is_json_ || is_cut_; }
  [[nodiscard]] bool is_cut() const { return is_cut_; }
  [[nodiscard]] bool has_keys() const { return has_keys_; }

  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool string(string_t& /*value*/) override { return true; }
  bool binary(Bytes& /*value*/) override { return true; }
  bool start_object(std::size_t /*count*/) override { return ++depth_ <= kMaxJsonDepth; }
  bool end_object() override { return --depth_ >= 0; }
  bool start_array(std::size_t /*count*/) override { return ++depth_ <= kMaxJsonDepth; }
  bool end_array() override { return --depth_ >= 0; }
  bool key(string_t& /*name*/) override { return has_keys_ = true; }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    is_cut_ = position >= size_;
    return false;
  }

 private:
  std::size_t size_;
  int depth_ = 0;
  bool is_json_ = false;
  bool is_cut_ = false;
  bool has_keys_ = false;
};

bool is_row(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos || line[begin] != '{') return false;
  const std::string_view trimmed = line.substr(begin, line.find_last_not_of(kBlanks) + 1 - begin);
  const JsonExamination found(trimmed);
  return found.has_keys() && nlohmann::json::accept(trimmed.begin(), trimmed.end());
}

/// The front of a file, without bytes before its first JSON value.
class Head {
 public:
  Head(std::string_view head, KnownPart part) : is_whole_(part == KnownPart::kAll) {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (head.starts_with(kByteOrderMark)) head.remove_prefix(kByteOrderMark.size());
    head.remove_prefix(std::min(head.find_first_not_of(kBlanks), head.size()));
    std::string repaired;
    text::append_repaired(repaired, head);
    text_ = json_names::mark_numbers(repaired).value_or(repaired);
  }

  [[nodiscard]] char first() const { return text_.empty() ? '\0' : text_.front(); }
  [[nodiscard]] bool has_whole_first_line() const {
    return is_whole_ || text_.find('\n') != std::string::npos;
  }
  [[nodiscard]] bool begins_with_row() const {
    return has_whole_first_line() && is_row(std::string_view(text_).substr(0, text_.find('\n')));
  }

  /// Whether it begins with an object with keys, over any number of lines, followed by another one or
  /// nothing.
  [[nodiscard]] bool begins_with_object() const {
    const JsonExamination found(text_);
    if (first() != '{' || !found.is_json() || !found.has_keys()) return false;
    if (found.is_cut()) return true;
    const std::size_t next = text_.find_first_not_of(kBlanks, ValueScanner().find_end(text_));
    return next == std::string::npos || text_[next] == '{';
  }

  /// Whether it is one array of objects, of which this is the front, or all with only blanks behind.
  [[nodiscard]] bool is_array_of_objects() const {
    const std::size_t inner = text_.find_first_not_of(kBlanks, 1);
    if (first() != '[' || (inner != std::string::npos && text_[inner] != '{' && text_[inner] != ']'))
      return false;
    return JsonExamination(text_).is_cut() ? !is_whole_ || inner != std::string::npos
                                           : nlohmann::json::accept(text_);
  }

  /// Whether more than half of the first whole lines are rows, and at least two.
  [[nodiscard]] bool is_mostly_rows() const {
    constexpr int kMostLines = 8;
    int lines = 0;
    int rows = 0;
    for (std::size_t begin = 0; begin < text_.size() && lines < kMostLines;) {
      const std::size_t end = text_.find('\n', begin);
      if (end == std::string::npos && !is_whole_) break;
      const std::string_view line = std::string_view(text_).substr(begin, end - begin);
      begin = std::min(end, text_.size() - 1) + 1;
      if (line.find_first_not_of(kBlanks) == std::string_view::npos) continue;
      ++lines;
      rows += is_row(line) ? 1 : 0;
    }
    return rows >= 2 && 2 * rows > lines;
  }

 private:
  bool is_whole_;
  std::string text_;
};

std::string read_head(const fs::path& path) {
  std::string head(kHeadBytes, '\0');
  SourceFile file = SourceFile::open(path);
  head.resize(file.read(std::as_writable_bytes(std::span(head)), [] { return false; }));
  return head;
}

bool is_lines_by_name(const fs::path& path) {
  return path.extension() == ".jsonl" || path.extension() == ".ndjson";
}

bool is_text_by_name(const fs::path& path) {
  return is_lines_by_name(path) || path.extension() == ".txt" || path.extension() == ".json";
}

/// Form by content, then by name. A message tells the reason, unless the form is text.
SourceForm found_form(const Head& head, const fs::path& path) {
  if (head.first() == '{') {
    if (head.begins_with_row()) return SourceForm::kJsonLines;
    if (head.begins_with_object())
      return head.has_whole_first_line() ? SourceForm::kJsonValues : SourceForm::kJsonLines;
  }
  if (head.is_array_of_objects()) return SourceForm::kJsonValues;
  if (head.is_mostly_rows() || is_lines_by_name(path)) return SourceForm::kJsonLines;
  if (path.extension() != ".json") return SourceForm::kText;
  if (head.first() != '{' && head.first() != '[' && head.first() != '\0')
    fail({ExitCode::kBadData, "corpus.format"},
         "{} is not JSON, expected an array of objects or one object per line, as its name says; "
         "--format text takes it for text, as does a name that ends in .txt",
         path.string());
  return SourceForm::kJsonValues;
}

KnownPart part_of(std::string_view head) {
  return head.size() < kHeadBytes ? KnownPart::kAll : KnownPart::kFront;
}

}  // namespace

SourceForm form_of(std::string_view head, KnownPart part, const fs::path& path, Format format) {
  require_no_magic(head, path, format == Format::kText ? Told::kText : Told::kNothing);
  if (format == Format::kText) return SourceForm::kText;
  if (format == Format::kJsonLines) return SourceForm::kJsonLines;
  if (format == Format::kJson) return SourceForm::kJsonValues;
  if (path.extension() == ".txt") return SourceForm::kText;
  const SourceForm form = found_form(Head(head, part), path);
  if (const std::size_t at = head.find('\0'); form == SourceForm::kText && at != std::string_view::npos)
    fail({ExitCode::kBadData, "corpus.format"},
         "{} has a zero byte at offset {}, so it is a binary file, not text; --format text takes it for "
         "text, as does a name that ends in .txt",
         path.string(), at);
  return form;
}

SourceForm form_of_file(const fs::path& path, Format format) {
  const std::string head = read_head(path);
  return form_of(head, part_of(head), path, format);
}

bool is_text(const fs::path& path) {
  require_no_stream(path, "", "make a token file of it first, with sluice tokenize");
  if (path.extension() == ".h5" || path.extension() == ".hdf5") return false;
  std::string head;
  try {
    head = read_head(path);
  } catch (const Error&) {
    return is_text_by_name(path);
  }
  if (is_hdf5(head)) return false;
  if (is_text_by_name(path)) return true;
  if (!head.empty() && form_of(head, part_of(head), path, Format::kAuto) != SourceForm::kText) return true;
  // The last character may be cut.
  constexpr std::size_t kLongestCharacter = 4;
  return !head.empty() && valid_utf8_prefix(head) + kLongestCharacter > head.size();
}

}  // namespace sluice::corpus
