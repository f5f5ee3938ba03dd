#include "corpus/source_reader.hpp"

#include "corpus/text_source.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace sluice::corpus {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kRead_bytes = 1 << 20;
constexpr std::size_t kBatch_bytes = 1 << 20;
constexpr std::size_t kLongest_bytes = std::size_t{1} << 30;

bool is_json_lines(const fs::path& path, Format format) {
  return format == Format::kByName ? corpus::is_json_lines(path) : format == Format::kJsonLines;
}

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r\f\v") == std::string_view::npos; }

}  // namespace

bool holds_text(const fs::path& path, Format format) { return !is_json_lines(path, format); }

SourceReader::SourceReader(std::vector<fs::path> paths, Format format, Documents documents,
                           const text::Tokenizer& tokenizer)
    : paths_(std::move(paths)), format_(format), documents_(documents), tokenizer_(&tokenizer) {
  for (const fs::path& path : paths_) total_bytes_ += InputFile::open(path).size_bytes();
}

void SourceReader::open(std::size_t source) {
  file_ = InputFile::open(paths_[source]);
  file_->advise_sequential();
  is_json_ = is_json_lines(paths_[source], format_);
  source_ = source;
  offset_ = 0;
  buffer_.clear();
  begin_ = 0;
  line_ = 1;
  is_inside_ = false;
  cut_again_at_ = 0;
}

/// Reads on; false at the end of the file.
bool SourceReader::fill() {
  const std::int64_t bytes = std::min<std::int64_t>(kRead_bytes, file_->size_bytes() - offset_);
  if (bytes == 0) return false;
  buffer_.erase(0, std::exchange(begin_, 0));
  const std::size_t before = buffer_.size();
  buffer_.resize(before + static_cast<std::size_t>(bytes));
  file_->read_at(offset_, std::as_writable_bytes(std::span(buffer_)).subspan(before));
  offset_ += bytes;
  return true;
}

std::optional<Batch> SourceReader::next() {
  Batch batch;
  while (batch.pieces.empty()) {
    if (!file_) {
      if (source_ == paths_.size()) return std::nullopt;
      open(source_);
    }
    const bool at_end = !fill();
    if (is_json_)
      take_lines(at_end, batch);
    else if (documents_ == Documents::kBlank)
      take_paragraphs(at_end, batch);
    else
      take_text(at_end, batch);
    batch.bytes_read = read_before_ + offset_ - static_cast<std::int64_t>(left().size());
    if (!at_end) continue;
    read_before_ += file_->size_bytes();
    file_.reset();
    ++source_;
  }
  return batch;
}

void SourceReader::require_room(std::string_view what) const {
  if (left().size() > kLongest_bytes)
    fail(ExitCode::kBadData, "{}:{}: {} of more than 1 GiB, which has to be held in memory whole",
         paths_[source_].string(), line_, what);
}

/// Moves on without handing anything out.
void SourceReader::drop(std::size_t bytes) {
  line_ += std::ranges::count(left().substr(0, bytes), '\n');
  begin_ += bytes;
}

Fate SourceReader::fate_at(std::int64_t byte) const {
  if (cuts_.empty() || cuts_[source_] == 0) return Fate::kDrawn;
  return byte < cuts_[source_] ? Fate::kKept : Fate::kHeldOut;
}

void SourceReader::put(std::size_t bytes, bool ends, Batch& batch) {
  batch.pieces.push_back({.bytes = std::string(left().substr(0, bytes)),
                          .is_json = is_json_,
                          .begins = !is_inside_,
                          .ends = ends,
                          .source = source_,
                          .line = line_,
                          .fate = fate_at(offset_ - std::ssize(left()))});
  is_inside_ = !ends;
  drop(bytes);
  cut_again_at_ = 0;
}

void SourceReader::take_lines(bool at_end, Batch& batch) {
  while (!left().empty()) {
    const std::size_t end = left().find('\n');
    if (end == std::string_view::npos && !at_end) return require_room("a line");
    const std::size_t bytes = std::min(end, left().size());
    if (is_blank(left().substr(0, bytes)))
      drop(bytes);
    else
      put(bytes, /*ends=*/true, batch);
    drop(std::min<std::size_t>(1, left().size()));
  }
}

/// Documents are runs of lines that are not blank, without their last line break.
void SourceReader::take_paragraphs(bool at_end, Batch& batch) {
  while (!left().empty()) {
    std::size_t end = 0;   // of the paragraph, in front of its last line break
    std::size_t next = 0;  // the line to look at
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

void SourceReader::take_text(bool at_end, Batch& batch) {
  const std::int64_t begin = offset_ - std::ssize(left());
  if (fate_at(begin) == Fate::kKept && cuts_[source_] <= offset_)
    put(static_cast<std::size_t>(cuts_[source_] - begin), /*ends=*/true, batch);
  if (!at_end) return cut_long(batch);
  if (!left().empty() || is_inside_ || offset_ == 0) put(left().size(), /*ends=*/true, batch);
}

/// What is left is the beginning of a document: hands out a part of it if it is long.
void SourceReader::cut_long(Batch& batch) {
  if (left().size() < std::max(kBatch_bytes, cut_again_at_)) return;
  if (const std::size_t cut = tokenizer_->last_cut(left())) return put(cut, /*ends=*/false, batch);
  cut_again_at_ = 2 * left().size();
  require_room("a document without a place at which its tokenizer lets it be cut");
}

}  // namespace sluice::corpus
