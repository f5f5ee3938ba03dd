// Writes token files, which token_file.hpp reads.
#pragma once

#include "data/answer_counts.hpp"
#include "io/hdf5.hpp"

#include <cstdint>
#include <filesystem>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

namespace sluice {

/// Dataset of a token file with pairs of documents.
inline constexpr const char* kPairsDataset = "/pairs";
/// Attribute of a token file, and of a file of scores, with the digest of its tokenizer.
inline constexpr const char* kTokenizerAttribute = "tokenizer_digest";

/// A token file that is written from front to back in constant memory. All calls come from one thread, as for
/// all HDF5 files.
class TokenWriter {
 public:
  /// Creates the file: `tokens` (int32) and `document_starts` (int64). Messages name it `shown_name`.
  /// Error(kIo) if it exists or cannot be created.
  TokenWriter(const std::filesystem::path& path, const std::string& shown_name);

  /// Begins a `loss_mask` (uint8: 1 for a token that counts as a target), with 1 for all tokens so far. Does
  /// nothing if there is one already. Error(kIo).
  void begin_mask();
  /// Makes the next token the first one of a document.
  void begin_document();
  /// Makes a pair of the last two documents, the first of which is preferred: a row of `pairs` (int64, [n, 2]).
  /// Error(kIo).
  void pair_documents();
  /// Appends tokens; `mask` has one value for each, or is empty if there is no `loss_mask`. Error(kIo).
  void append(std::span<const std::int32_t> tokens, std::span<const std::int32_t> mask);
  /// Adds to the numbers of answers that the file keeps.
  void count_answers(const AnswerCounts& answers) { answers_ += answers; }
  /// Writes the rest; nothing can be appended afterwards. The file stays open until close(), for attributes.
  /// Error(kIo).
  hdf5::File& finish();
  void close() { file_.close(); }

  [[nodiscard]] bool has_mask() const { return mask_.has_value(); }
  [[nodiscard]] std::int64_t token_count() const { return tokens_.count(); }
  [[nodiscard]] std::int64_t document_count() const { return starts_.count(); }
  [[nodiscard]] std::int64_t pair_count() const { return pairs_ ? pairs_->count() : 0; }
  /// Number of tokens that a job can learn: they begin no document, and their mask, if there is one, is 1.
  [[nodiscard]] std::int64_t target_count() const { return targets_; }
  [[nodiscard]] const AnswerCounts& answers() const { return answers_; }

 private:
  /// A dataset that grows, and its rows, of `width` values each, that are still in memory.
  template <class T>
  class Column {
   public:
    Column(hdf5::Dataset dataset, std::int64_t width = 1) : dataset_(std::move(dataset)), width_(width) {}
    void append(std::span<const T> values);
    void flush();
    /// Writes the rest and closes the dataset.
    void finish();
    /// Number of rows.
    [[nodiscard]] std::int64_t count() const { return written_ + std::ssize(waiting_) / width_; }

   private:
    hdf5::Dataset dataset_;
    std::int64_t width_;
    std::vector<T> waiting_;
    std::int64_t written_ = 0;
  };

  hdf5::File file_;
  Column<std::int32_t> tokens_;
  Column<std::int64_t> starts_;
  std::optional<Column<std::int32_t>> mask_;
  std::optional<Column<std::int64_t>> pairs_;
  std::int64_t targets_ = 0;
  AnswerCounts answers_;
  bool begins_ = false;  ///< whether the next token begins a document
};

}  // namespace sluice
