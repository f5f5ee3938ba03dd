// Files of text, cut into documents, in constant memory.
#pragma once

#include "corpus/source/source_file.hpp"
#include "corpus/source/source_form.hpp"
#include "corpus/source/value_scanner.hpp"
#include "text/tokenizer.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sluice::corpus {

/// Where a document of a text file ends, beside the file's end.
enum class Documents {
  kFile,       ///< nowhere
  kBlank,      ///< at blank lines
  kEndOfText,  ///< at the end-of-text token, where the text has it
  kLine,       ///< at every line; blank ones are none
};

/// Which of two token files a document belongs into.
enum class Fate : std::uint8_t {
  kDrawn,    ///< as its number says
  kKept,     ///< the one to train on
  kHeldOut,  ///< the other
};

/// A document, or a part of one too long for memory.
struct Piece {
  std::string bytes;    ///< of text, or a row of JSON
  std::string fault{};  ///< what is wrong with the file at this place, where there are no bytes
  bool is_json = false;
  bool begins = true;      ///< a document; else it goes on with the piece before
  bool ends = true;        ///< a document
  std::size_t source = 0;  ///< which file
  std::int64_t line = 1;   ///< of the file, at which it begins
  std::int64_t row = 0;    ///< of JSON that is no lines: its number, from 1
  Fate fate = Fate::kDrawn;
};

/// "FILE:LINE: ", with the number of the row where lines do not tell them apart.
[[nodiscard]] std::string place_text(const std::filesystem::path& path, std::int64_t line, std::int64_t row);

/// Pieces that are encoded together, about a megabyte; bytes of the sources up to their end.
struct Batch {
  std::vector<Piece> pieces;
  std::int64_t bytes_read = 0;
};

/// Reads files one after another, each once. Not for several threads at once.
class SourceReader {
 public:
  using Stops = std::function<bool()>;

  /// Error(kBadData) if a file is missing, no file that can be read, compressed or binary. `tokenizer` must
  /// outlive the reader; it may be null where documents are lines. While a stream is waited for, `stops` is
  /// asked now and then: true ends that stream.
  SourceReader(
      std::vector<std::filesystem::path> paths, Format format, Documents documents,
      const text::Tokenizer* tokenizer, Stops stops = [] { return false; });

  /// Before next(): the text of each source whose byte is not 0 ends there as a document to keep, and goes on as one that is
  /// held out. For text that Documents::kBlank does not part.
  void cut_texts(std::vector<std::int64_t> bytes) { cuts_ = std::move(bytes); }

  /// The next pieces; nothing behind the last file. Error(kBadData) for a document, or a row, that is too
  /// long for memory and cannot be cut.
  [[nodiscard]] std::optional<Batch> next();
  /// Of the regular files.
  [[nodiscard]] std::int64_t total_bytes() const { return total_bytes_; }

 private:
  /// Where the reader is in JSON that is no lines.
  enum class Array { kOutside, kBeforeRow, kBehindRow };

  [[nodiscard]] bool fill();
  void open(std::size_t source);
  void close();
  void take(bool at_end, Batch& batch);
  void take_lines(bool at_end, Batch& batch);
  void take_values(bool at_end, Batch& batch);
  [[nodiscard]] bool find_value(bool at_end, Batch& batch);
  void take_paragraphs(bool at_end, Batch& batch);
  void take_text(bool at_end, Batch& batch);
  void cut_long(Batch& batch);
  void put(std::size_t bytes, bool ends, Batch& batch);
  [[nodiscard]] Fate fate_at(std::int64_t byte) const;
  void put_fault(std::string fault, Batch& batch);
  void drop(std::size_t bytes);
  void drop_blanks();
  void require_room(std::string_view what) const;
  [[nodiscard]] std::string_view left() const { return std::string_view(buffer_).substr(begin_); }

  std::vector<std::filesystem::path> paths_;
  Format format_;
  Documents documents_;
  const text::Tokenizer* tokenizer_;
  Stops stops_;
  std::vector<std::int64_t> cuts_{};  ///< of each source, 0 for none; or empty
  std::int64_t total_bytes_ = 0;

  std::optional<SourceFile> file_;
  std::size_t source_ = 0;  ///< of file_
  SourceForm form_ = SourceForm::kText;
  std::int64_t offset_ = 0;       ///< read of file_
  std::int64_t read_before_ = 0;  ///< bytes of the files before it
  std::string buffer_;            ///< what was read and is not handed out: from begin_ on
  std::size_t begin_ = 0;
  std::int64_t line_ = 1;  ///< of begin_
  std::int64_t row_ = 0;   ///< rows handed out of JSON that is no lines
  Array array_ = Array::kOutside;
  ValueScanner scanner_;          ///< of the row at begin_
  std::size_t looked_at_ = 0;     ///< bytes of what is left in which no line ends
  bool is_inside_ = false;        ///< a document whose first pieces are handed out
  std::size_t cut_again_at_ = 0;  ///< bytes left at which a cut is worth another look
};

}  // namespace sluice::corpus
