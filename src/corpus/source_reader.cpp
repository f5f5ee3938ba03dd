#include "corpus/source_reader.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <system_error>
#include <utility>

namespace sluice::corpus {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kRead_bytes = kHeadBytes;
constexpr std::size_t kBatch_bytes = 1 << 20;
constexpr std::size_t kLongest_bytes = std::size_t{1} << 30;

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r\f\v") == std::string_view::npos; }

}  // namespace

std::string place_text(const fs::path& path, std::int64_t line, std::int64_t row) {
  return fmt::format("{}:{}: {}", path.string(), line, row > 0 ? fmt::format("row {} ", row) : "");
}

SourceReader::SourceReader(std::vector<fs::path> paths, Format format, DocumentEnds documents,
                           const text::Tokenizer* tokenizer, Stops stops)
    : paths_(std::move(paths)),
      format_(format),
      documents_(documents),
      tokenizer_(tokenizer),
      stops_(std::move(stops)) {
  // The form of a stream is found when its turn comes, because it can be read only once.
  for (std::size_t source = 0; source < paths_.size(); ++source) {
    if (is_stream(paths_[source])) continue;
    open(source);
    total_bytes_ += file_->size_bytes();
  }
  file_.reset();
  source_ = 0;
}

/// Opens a source and reads the front of its file into the buffer.
void SourceReader::open(std::size_t source) {
  file_ = SourceFile::open(paths_[source]);
  source_ = source;
  offset_ = 0;
  buffer_.clear();
  begin_ = 0;
  line_ = 1;
  row_ = 0;
  array_ = Array::kOutside;
  scanner_.restart();
  looked_at_ = 0;
  is_inside_ = false;
  cut_again_at_ = 0;
  static_cast<void>(fill());
  form_ = form_of(buffer_, buffer_.size() < kRead_bytes ? KnownPart::kAll : KnownPart::kFront, paths_[source],
                  format_);
  if (form_ != SourceForm::kText && left().starts_with(kByteOrderMark)) drop(kByteOrderMark.size());
}

void SourceReader::close() {
  read_before_ += offset_;
  file_.reset();
  ++source_;
}

/// Reads on; false at the end of the file.
bool SourceReader::fill() {
  buffer_.erase(0, std::exchange(begin_, 0));
  const std::size_t before = buffer_.size();
  buffer_.resize(before + kRead_bytes);
  const std::size_t bytes = file_->read(std::as_writable_bytes(std::span(buffer_)).subspan(before), stops_);
  buffer_.resize(before + bytes);
  offset_ += static_cast<std::int64_t>(bytes);
  return bytes > 0;
}

std::optional<PieceBatch> SourceReader::next() {
  PieceBatch batch;
  while (batch.pieces.empty()) {
    if (!file_) {
      if (source_ == paths_.size()) return std::nullopt;
      open(source_);
    }
    const bool at_end = !fill();
    take(at_end, batch);
    batch.bytes_read = read_before_ + offset_ - static_cast<std::int64_t>(left().size());
    if (at_end) close();
  }
  return batch;
}

void SourceReader::take(bool at_end, PieceBatch& batch) {
  if (form_ == SourceForm::kJsonValues) return take_values(at_end, batch);
  if (form_ == SourceForm::kJsonLines || documents_ == DocumentEnds::kLine) return take_lines(at_end, batch);
  if (documents_ == DocumentEnds::kBlank) return take_paragraphs(at_end, batch);
  take_text(at_end, batch);
}

void SourceReader::require_room(std::string_view what) const {
  if (left().size() > kLongest_bytes)
    fail(ExitCode::kBadData, "{}:{}: {} of more than 1 GiB, which has to be held in memory whole",
         paths_[source_].string(), line_, what);
}

/// Drops bytes without returning them.
void SourceReader::drop(std::size_t bytes) {
  line_ += std::ranges::count(left().substr(0, bytes), '\n');
  begin_ += bytes;
}

Fate SourceReader::fate_at(std::int64_t byte) const {
  if (cuts_.empty() || cuts_[source_] == 0) return Fate::kDrawn;
  return byte < cuts_[source_] ? Fate::kKept : Fate::kHeldOut;
}

void SourceReader::put(std::size_t bytes, bool ends, PieceBatch& batch) {
  batch.pieces.push_back({.bytes = std::string(left().substr(0, bytes)),
                          .fault = "",
                          .is_json = form_ != SourceForm::kText,
                          .begins = !is_inside_,
                          .ends = ends,
                          .source = source_,
                          .line = line_,
                          .row = row_,
                          .fate = fate_at(offset_ - std::ssize(left()))});
  is_inside_ = !ends;
  drop(bytes);
  cut_again_at_ = 0;
}

void SourceReader::put_fault(std::string fault, PieceBatch& batch) {
  batch.pieces.push_back({.bytes = "",
                          .fault = std::move(fault),
                          .is_json = true,
                          .begins = true,
                          .ends = true,
                          .source = source_,
                          .line = line_,
                          .row = row_});
}

void SourceReader::take_lines(bool at_end, PieceBatch& batch) {
  while (!left().empty()) {
    const std::size_t end = left().find('\n', looked_at_);
    if (end == std::string_view::npos && !at_end) {
      looked_at_ = left().size();
      return require_room("a line");
    }
    looked_at_ = 0;
    const std::size_t bytes = std::min(end, left().size());
    if (is_blank(left().substr(0, bytes)))
      drop(bytes);
    else
      put(bytes, /*ends=*/true, batch);
    drop(std::min<std::size_t>(1, left().size()));
  }
}

void SourceReader::drop_blanks() { drop(std::min(left().find_first_not_of(" \t\r\n"), left().size())); }

/// Drops bytes before the next row. False if there is no row in the rest.
bool SourceReader::find_value(bool at_end, PieceBatch& batch) {
  for (drop_blanks(); !left().empty(); drop_blanks()) {
    const char next = left().front();
    if (array_ == Array::kOutside && next != '[') return true;
    if (array_ != Array::kOutside && next == ']')
      array_ = Array::kOutside;
    else if (array_ == Array::kBehindRow && next != ',') {
      put_fault(fmt::format("is followed by '{}', expected ',' or the array's end", printable({&next, 1})),
                batch);
      array_ = Array::kBeforeRow;
      return true;
    } else if (array_ == Array::kBeforeRow) {
      return true;
    } else {
      array_ = Array::kBeforeRow;  // the position is after the array's '[' or a comma
    }
    drop(1);
  }
  if (at_end && std::exchange(array_, Array::kOutside) != Array::kOutside)
    put_fault("is the last one, and the array does not end; was the file cut short?", batch);
  return false;
}

/// Takes rows in an array, or one after another; an array of any length is never in memory as a whole.
void SourceReader::take_values(bool at_end, PieceBatch& batch) {
  while (find_value(at_end, batch)) {
    const std::size_t end = scanner_.find_end(left());
    if (end == std::string_view::npos && !at_end) return require_room("a row");
    scanner_.restart();
    ++row_;
    // A cut row is fault enough.
    if (array_ != Array::kOutside)
      array_ = end == std::string_view::npos ? Array::kOutside : Array::kBehindRow;
    put(std::min(end, left().size()), /*ends=*/true, batch);
  }
}

/// Takes documents that are separated by blank lines, without the last line break of each.
void SourceReader::take_paragraphs(bool at_end, PieceBatch& batch) {
  while (!left().empty()) {
    std::size_t end = 0;   // end of the paragraph, before its last line break
    std::size_t next = 0;  // beginning of the next line
    bool is_over = false;
    while (next < left().size() && !is_over) {
      const std::size_t line_break = left().find('\n', next);
      if (line_break == std::string_view::npos && !at_end) break;
      const std::size_t line_end = std::min(line_break, left().size());
      is_over = is_blank(left().substr(next, line_end - next));
      if (!is_over) end = line_end;
      next = std::min(line_end + 1, left().size());
    }
    if (!is_over && !at_end) return cut_long(batch);
    if (end > 0) put(end, /*ends=*/true, batch);
    drop(next - end);
  }
}

/// Whether a text is blank as far as it was read; false once some of it was returned.
bool SourceReader::is_blank_so_far() {
  if (offset_ != std::ssize(left())) return false;
  if (looked_at_ == 0 && left().starts_with(kByteOrderMark)) looked_at_ = kByteOrderMark.size();
  looked_at_ = std::min(left().find_first_not_of(" \t\r\n\f\v", looked_at_), left().size());
  return looked_at_ == left().size();
}

void SourceReader::take_text(bool at_end, PieceBatch& batch) {
  if (is_blank_so_far()) {
    if (!at_end) return require_room("a blank beginning of a text");
    drop(left().size());
    return put(0, /*ends=*/true, batch);
  }
  const std::int64_t begin = offset_ - std::ssize(left());
  if (fate_at(begin) == Fate::kKept && cuts_[source_] <= offset_)
    put(static_cast<std::size_t>(cuts_[source_] - begin), /*ends=*/true, batch);
  if (!at_end) return cut_long(batch);
  if (!left().empty() || is_inside_) put(left().size(), /*ends=*/true, batch);
}

/// Returns a part of a long document that the rest of the buffer begins.
void SourceReader::cut_long(PieceBatch& batch) {
  if (left().size() < std::max(kBatch_bytes, cut_again_at_)) return;
  if (const std::size_t cut = tokenizer_->last_cut(left())) return put(cut, /*ends=*/false, batch);
  cut_again_at_ = 2 * left().size();
  require_room("a document without a place at which its tokenizer lets it be cut");
}

}  // namespace sluice::corpus
