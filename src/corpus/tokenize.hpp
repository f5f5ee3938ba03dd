// Tokenizes texts and conversations to token files.
#pragma once

#include "corpus/document_encoder.hpp"
#include "corpus/source_reader.hpp"
#include "corpus/unused_keys.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace sluice::corpus {

/// What happens to a line that cannot be read.
enum class BadLines { kError, kSkip };

/// Options of `sluice tokenize`.
struct TokenizeOptions {
  std::filesystem::path model;  ///< directory with tokenizer.json and config.json
  std::vector<std::filesystem::path> sources;
  std::filesystem::path output;
  /// Share of the documents, chosen by their number, that goes to holdout_path(output). A text file that is
  /// one document gives its end, unless there are enough documents to choose from.
  double holdout_share = 0;
  Format format = Format::kAuto;
  DocumentEnds documents = DocumentEnds::kEndOfText;
  RowOptions row;
  Loss loss = Loss::kAssistant;
  std::filesystem::path chat_template;  ///< file with a chat template; "": the model's
  std::string end_token;                ///< token that ends documents; "": the model's
  bool adds_end_token = true;
  BadLines bad_lines = BadLines::kError;
  int threads = 1;
  std::function<void(std::int64_t done, std::int64_t total)> progress = [](std::int64_t, std::int64_t) {
  };  ///< function that gets the progress in bytes
  std::function<bool()> stops = [] {
    return false;
  };  ///< function asked now and then, by any thread: true ends the work, with nothing written
};

/// Rows that have something in common.
struct PlacedRows {
  std::int64_t count = 0;
  std::vector<std::string> places;  ///< places of the first ones, "FILE:LINE"
};

/// Report of `sluice tokenize`.
struct TokenizeReport {
  std::int64_t tokens = 0;  ///< tokens in the output file
  std::int64_t documents = 0;
  std::int64_t holdout_tokens = 0;
  std::int64_t holdout_documents = 0;
  std::vector<std::int64_t> cuts;    ///< byte of each source from which on it is held out; 0: none
  std::int64_t targets = 0;          ///< number of tokens of the output that a job can learn
  std::int64_t holdout_targets = 0;  ///< targets in the held-out documents
  bool has_mask = false;
  AnswerCounts answers;              ///< learnt answers of conversations in the output
  std::int64_t empty_documents = 0;  ///< number of documents without tokens, which are left out
  std::int64_t repairs = 0;          ///< number of parts that were not UTF-8, and were read as U+FFFD
  std::int64_t bad_line_count = 0;
  std::vector<std::string> bad_lines;  ///< texts of the first bad lines, "FILE:LINE: reason"
  std::int64_t pairs = 0;              ///< pairs of documents in the output and the held-out file
  PlacedRows equal_answers;            ///< pairs of equal answers, which are left out
  PlacedRows uneven_ends;  ///< pairs of which one answer ends with a learnt end token and the other does not
  std::vector<UnusedKeys> unused;  ///< unused keys of each source's rows
  bool is_stopped = false;
};

/// Options of encoding documents. `tokenizer` is that of options.model; both must outlive the result.
[[nodiscard]] EncodingOptions encoding_options(const TokenizeOptions& options,
                                               const text::Tokenizer& tokenizer);

/// Throws Error(kBadData): no document of the sources has a token, or only those that are held out have one.
[[noreturn]] void fail_without_tokens(const std::vector<std::filesystem::path>& sources, bool holds_out);

/// Lines about what was not used of each source: "rows.jsonl: not used: 'id' (200 rows), 'score' (3 rows)", and
/// rejected answers, unless the options say which answer is learnt.
[[nodiscard]] std::vector<std::string> unused_key_lines(const TokenizeOptions& options,
                                                        const TokenizeReport& report);

/// Warnings about pairs: those left out for equal answers, and those whose answers end differently.
[[nodiscard]] std::vector<std::string> pair_warnings(const TokenizeReport& report);

/// Path of the held-out file: "moby.holdout.h5" for "moby.h5".
[[nodiscard]] std::filesystem::path holdout_path(const std::filesystem::path& output);

/// Reads the sources and writes the output, and the held-out documents if a share is asked for. The same
/// sources, tokenizer and options make the same files, whatever the number of threads. Files appear whole, or
/// not at all. Error(kUsage) if an output is there already; Error(kBadData) for a source or model that cannot
/// be used, and for bad lines unless they are to be skipped.
[[nodiscard]] TokenizeReport tokenize(const TokenizeOptions& options);

}  // namespace sluice::corpus
