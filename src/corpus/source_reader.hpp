// Reads text files and cuts them into documents, in constant memory.
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

/// Where documents of a text file end, besides the end of the file.
enum class DocumentEnds {
  kFile,       ///< nowhere within the file: it is one document
  kBlank,      ///< blank lines separate documents
  kEndOfText,  ///< end-of-text tokens in the text separate documents
  kLine,       ///< a document begins at every line that is not blank
};

/// The token file to which a document goes.
enum class Fate : std::uint8_t {
  kDrawn,    ///< decided by the document's number
  kKept,     ///< the token file for training
  kHeldOut,  ///< the held-out token file
};

/// A document, or a part of one too long for memory.
struct DocumentPiece {
  std::string bytes;    ///< bytes of the text, or of a row of JSON
  std::string fault{};  ///< fault of the file at this place; the piece then has no bytes
  bool is_json = false;
  bool begins = true;      ///< whether the piece begins a document; otherwise it continues the piece before
  bool ends = true;        ///< whether the piece ends a document
  std::size_t source = 0;  ///< index of the source
  std::int64_t line = 1;   ///< line of the file at which the piece begins, from 1
  std::int64_t row = 0;    ///< number of the row, from 1, in JSON that is not one row per line
  Fate fate = Fate::kDrawn;
};

/// Place of a piece for messages, "FILE:LINE: ", with the number of its row if lines do not tell rows apart.
[[nodiscard]] std::string place_text(const std::filesystem::path& path, std::int64_t line, std::int64_t row);

/// Pieces that are encoded together, about a megabyte, and the bytes of the sources up to their end.
struct PieceBatch {
  std::vector<DocumentPiece> pieces;
  std::int64_t bytes_read = 0;
};

/// Reads files one after another, each once. Not thread-safe.
class SourceReader {
 public:
  using Stops = std::function<bool()>;

  /// Error(kBadData) if a file is missing, no file that can be read, compressed or binary. `tokenizer` must
  /// outlive the reader; it may be null where documents are lines. While a stream is waited for, `stops` is
  /// asked now and then: true ends that stream.
  SourceReader(
      std::vector<std::filesystem::path> paths, Format format, DocumentEnds documents,
      const text::Tokenizer* tokenizer, Stops stops = [] { return false; });

  /// Cuts texts: the text of each source whose byte is not 0 ends there as a document for training, and goes
  /// on as a held-out one. Must be called before next(); for texts that DocumentEnds::kBlank does not separate.
  void cut_texts(std::vector<std::int64_t> bytes) { cuts_ = std::move(bytes); }

  /// The next pieces; nothing after the last file. Error(kBadData) for a document, or a row, that is too long
  /// for memory and cannot be cut.
  [[nodiscard]] std::optional<PieceBatch> next();
  /// Bytes of all regular files together.
  [[nodiscard]] std::int64_t total_bytes() const { return total_bytes_; }

 private:
  /// State of the reader in JSON that is not one row per line.
  enum class Array { kOutside, kBeforeRow, kBehindRow };

  [[nodiscard]] bool fill();
  void open(std::size_t source);
  void close();
  void take(bool at_end, PieceBatch& batch);
  void take_lines(bool at_end, PieceBatch& batch);
  void take_values(bool at_end, PieceBatch& batch);
  [[nodiscard]] bool find_value(bool at_end, PieceBatch& batch);
  void take_paragraphs(bool at_end, PieceBatch& batch);
  [[nodiscard]] bool is_blank_so_far();
  void take_text(bool at_end, PieceBatch& batch);
  void cut_long(PieceBatch& batch);
  void put(std::size_t bytes, bool ends, PieceBatch& batch);
  [[nodiscard]] Fate fate_at(std::int64_t byte) const;
  void put_fault(std::string fault, PieceBatch& batch);
  void drop(std::size_t bytes);
  void drop_blanks();
  void require_room(std::string_view what) const;
  [[nodiscard]] std::string_view left() const { return std::string_view(buffer_).substr(begin_); }

  std::vector<std::filesystem::path> paths_;
  Format format_;
  DocumentEnds documents_;
  const text::Tokenizer* tokenizer_;
  Stops stops_;
  /// Byte of each source from which on it is held out, 0: none; empty: no source.
  std::vector<std::int64_t> cuts_{};
  std::int64_t total_bytes_ = 0;

  std::optional<SourceFile> file_;
  std::size_t source_ = 0;  ///< index of the present source
  SourceForm form_ = SourceForm::kText;
  std::int64_t offset_ = 0;       ///< bytes read from the present file
  std::int64_t read_before_ = 0;  ///< bytes of the files before the present one
  std::string buffer_;            ///< bytes read; those before begin_ were returned already
  std::size_t begin_ = 0;
  std::int64_t line_ = 1;  ///< line of the file at begin_
  std::int64_t row_ = 0;   ///< number of rows returned, in JSON that is not one row per line
  Array array_ = Array::kOutside;
  ValueScanner scanner_;       ///< scanner of the row at begin_
  std::size_t looked_at_ = 0;  ///< number of bytes in the rest in which no line ends, or that are blank
  /// Whether the reader is inside a document whose first pieces were returned.
  bool is_inside_ = false;
  std::size_t cut_again_at_ = 0;  ///< number of bytes in the rest at which a cut is tried again
};

}  // namespace sluice::corpus
