#include "corpus/tokenize.hpp"

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "base/version.hpp"
#include "corpus/document_writer.hpp"
#include "corpus/model_tokens.hpp"
#include "corpus/ordered_work.hpp"
#include "corpus/source/text_cut.hpp"
#include "corpus/staged_token_file.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <utility>

namespace sluice::corpus {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostListed = 20;

/// State and outputs of one run of the command.
class Tokenization {
 public:
  explicit Tokenization(const TokenizeOptions& options)
      : options_(options),
        tokenizer_(text::Tokenizer::load(options.model)),
        reader_(options.sources, options.format, options.documents, &tokenizer_,
                [this] { return is_over_ || options_.stops(); }),
        frame_(frame_of(options, tokenizer_)) {
    report_.unused.resize(options.sources.size());
    encoding_ = encoding_options(options_, tokenizer_);
    report_.cuts = find_cuts();
    reader_.cut_texts(report_.cuts);
  }

  [[nodiscard]] TokenizeReport run() {
    OrderedWork<PieceBatch, Encoded> work([this] { return reader_.next(); }, [this] { return turner(); },
                                          static_cast<std::size_t>(options_.threads));
    const EndOfReading end{is_over_};
    while (std::optional<Encoded> batch = work.take()) {
      if (is_stopped()) return report_;
      for (const EncodedDocumentPiece& piece : batch->pieces) take(piece);
      bytes_read_ = batch->bytes_read;
      options_.progress(bytes_read_, std::max(reader_.total_bytes(), bytes_read_));
      if (options_.bad_lines == BadLines::kError &&
          report_.bad_line_count >= static_cast<std::int64_t>(kMostListed))
        break;
    }
    if (is_stopped()) return report_;  // a stream that was waited for has ended only because of the stop
    finish();
    return report_;
  }

 private:
  struct Encoded {
    std::vector<EncodedDocumentPiece> pieces;
    std::int64_t bytes_read = 0;
  };

  /// Ends every wait for a stream when the work ends in any way.
  struct EndOfReading {
    std::atomic<bool>& is_over;
    ~EndOfReading() { is_over = true; }
  };

  static DocumentFrame frame_of(const TokenizeOptions& options, const text::Tokenizer& tokenizer) {
    DocumentFrame frame;
    frame.vocab_size = read_vocab_size(options.model);
    const bool splits = options.documents == DocumentEnds::kEndOfText;
    if (!options.adds_end_token && !splits && options.end_token.empty()) return frame;
    std::optional<text::TokenId> end;
    try {
      end = read_end_token(options.model, tokenizer, options.end_token);
    } catch (const Error& error) {
      if (options.adds_end_token || error.code() == ExitCode::kUsage) throw;
    }
    if (options.adds_end_token) frame.end = end;
    if (splits) frame.separator = end;
    return frame;
  }

  /// Byte at which the held-out end of each source begins whose text is one document, if there are too few
  /// documents to choose from. The content of a stream is not known before it is read.
  [[nodiscard]] std::vector<std::int64_t> find_cuts() const {
    constexpr double kEnough = 10;
    std::vector<std::int64_t> cuts(options_.sources.size(), 0);
    if (options_.holdout_share == 0 || options_.documents == DocumentEnds::kBlank) return cuts;
    const auto is_text = [&](const fs::path& source) {
      return !is_stream(source) && form_of_file(source, options_.format) == SourceForm::kText;
    };
    const auto texts = static_cast<double>(std::ranges::count_if(options_.sources, is_text));
    if (options_.holdout_share * texts >= kEnough) return cuts;
    const std::string separator =
        frame_.separator ? tokenizer_.decode(std::span(&*frame_.separator, 1), text::Specials::kKeep) : "";
    for (std::size_t source = 0; source < cuts.size(); ++source) {
      const fs::path& path = options_.sources[source];
      if (is_text(path) && !holds_separator(path, separator))
        cuts[source] = holdout_begin(path, options_.holdout_share);
    }
    return cuts;
  }

  /// Function for the work of one thread, with its own encoder.
  [[nodiscard]] OrderedWork<PieceBatch, Encoded>::Turn turner() {
    auto encoder = std::make_shared<DocumentEncoder>(tokenizer_, encoding_);
    return [encoder](const PieceBatch& batch) {
      Encoded out;
      for (const DocumentPiece& piece : batch.pieces) out.pieces.push_back(encoder->encode(piece));
      out.bytes_read = batch.bytes_read;
      return out;
    };
  }

  [[nodiscard]] bool is_stopped() {
    report_.is_stopped = options_.stops();
    return report_.is_stopped;
  }

  void take(const EncodedDocumentPiece& piece) {
    report_.repairs += piece.repairs;
    if (!piece.fault.empty()) {
      if (report_.bad_lines.size() < kMostListed)
        report_.bad_lines.push_back(place_text(options_.sources[piece.source], piece.line, piece.row) +
                                    piece.fault);
      ++report_.bad_line_count;
      return;
    }
    if (options_.row.answers == Answers::kPair && piece.is_text_file)
      fail(ExitCode::kBadData,
           "{}: found text, expected rows of JSON, each with a chosen and a rejected answer",
           options_.sources[piece.source].string());
    note_pair(piece);
    // After an error nothing will be kept.
    if (report_.bad_line_count > 0 && options_.bad_lines == BadLines::kError) return;
    writer().write(piece, options_.sources[piece.source]);
    report_.unused[piece.source].add(piece.unused);
  }

  void note_pair(const EncodedDocumentPiece& piece) {
    if (piece.pair_fault == PairFault::kNone) return;
    PlacedRows& rows = piece.pair_fault == PairFault::kEqual ? report_.equal_answers : report_.uneven_ends;
    ++rows.count;
    if (rows.places.size() < kMostListed)
      rows.places.push_back(fmt::format("{}:{}", options_.sources[piece.source].string(), piece.line));
  }

  DocumentWriter& writer() {
    if (writer_) return *writer_;
    output_ = std::make_unique<StagedTokenFile>(options_.output);
    if (options_.holdout_share > 0)
      holdout_ = std::make_unique<StagedTokenFile>(holdout_path(options_.output));
    writer_ = std::make_unique<DocumentWriter>(tokenizer_, frame_, *output_, holdout_.get(),
                                               options_.holdout_share);
    return *writer_;
  }

  void finish() {
    if (report_.bad_line_count > 0 && options_.bad_lines == BadLines::kError) refuse_bad_lines();
    report_.empty_documents = writer().empty_documents();
    report_.tokens = output_->writer().token_count();
    report_.documents = output_->writer().document_count();
    report_.targets = output_->writer().target_count();
    report_.has_mask = output_->writer().has_mask();
    report_.answers = output_->writer().answers();
    report_.pairs = output_->writer().pair_count() + (holdout_ ? holdout_->writer().pair_count() : 0);
    if (report_.tokens == 0 && report_.equal_answers.count > 0) refuse_equal_answers();
    if (report_.tokens == 0) fail_without_tokens(options_.sources, holdout_ != nullptr);
    if (holdout_) {
      report_.holdout_tokens = holdout_->writer().token_count();
      report_.holdout_documents = holdout_->writer().document_count();
      report_.holdout_targets = holdout_->writer().target_count();
    }
    describe(*output_);
    if (holdout_) describe(*holdout_);
    output_->commit();
    if (holdout_) holdout_->commit();
  }

  [[noreturn]] void refuse_equal_answers() const {
    fail({ExitCode::kBadData, "corpus.no_tokens"},
         "both answers are the same in {}, which leaves no pair, expected answers that differ:{}",
         counted(report_.equal_answers.count, "pair"),
         lines_of_some(report_.equal_answers.places, kMostListed));
  }

  [[noreturn]] void refuse_bad_lines() const {
    const auto more = report_.bad_line_count - std::ssize(report_.bad_lines);
    fail({ExitCode::kBadData, "corpus.row"},
         "{} bad line{}{}; `sluice tokenize --bad-lines skip` leaves such lines out{}",
         report_.bad_line_count, report_.bad_line_count == 1 ? "" : "s",
         more > 0 || report_.bad_lines.size() == kMostListed ? " or more" : "",
         lines_of_some(report_.bad_lines, kMostListed));
  }

  /// Writes attributes that explain the file.
  void describe(StagedTokenFile& staged) {
    hdf5::File& file = staged.writer().finish();
    std::vector<std::string> sources;
    for (const fs::path& source : options_.sources) sources.push_back(source.string());
    file.set_attribute("/", "format_version", std::int64_t{1});
    file.set_attribute("/", "program", fmt::format("sluice {}", version()));
    file.set_attribute("/", "tokenizer", text::Tokenizer::find(options_.model).value().string());
    file.set_attribute("/", kTokenizerAttribute, tokenizer_.digest().hex());
    file.set_attribute("/", "vocab_size", frame_.vocab_size);
    file.set_attribute("/", "sources", fmt::format("{}", fmt::join(sources, "\n")));
    file.set_attribute("/", "source_bytes", std::max(reader_.total_bytes(), bytes_read_));
    file.set_attribute("/", "documents", staged.writer().document_count());
    file.set_attribute("/", "empty_documents", report_.empty_documents);
    file.set_attribute("/", "bad_lines", report_.bad_line_count);
    file.set_attribute("/", "repaired_characters", report_.repairs);
    if (options_.row.answers == Answers::kPair) {
      file.set_attribute("/", "equal_answers", report_.equal_answers.count);
      file.set_attribute("/", "uneven_ends", report_.uneven_ends.count);
    }
    if (frame_.end) file.set_attribute("/", "end_token", std::int64_t{*frame_.end});
    staged.writer().close();
  }

  const TokenizeOptions& options_;
  std::atomic<bool> is_over_ = false;
  std::int64_t bytes_read_ = 0;  ///< bytes of the sources read so far
  text::Tokenizer tokenizer_;
  SourceReader reader_;
  DocumentFrame frame_;
  EncodingOptions encoding_;
  std::unique_ptr<StagedTokenFile> output_;
  std::unique_ptr<StagedTokenFile> holdout_;
  std::unique_ptr<DocumentWriter> writer_;
  TokenizeReport report_;
};

}  // namespace

fs::path holdout_path(const fs::path& output) {
  fs::path path = output;
  return path.replace_extension(".holdout" + output.extension().string());
}

EncodingOptions encoding_options(const TokenizeOptions& options, const text::Tokenizer& tokenizer) {
  return {.row = options.row,
          .loss = options.loss,
          .chat_template = read_chat_template(options.model, options.chat_template),
          .answer_ends = [&options, &tokenizer] { return read_answer_ends(options.model, tokenizer); }};
}

void fail_without_tokens(const std::vector<fs::path>& sources, bool holds_out) {
  std::vector<std::string> names;
  for (const fs::path& source : sources) names.push_back(source.string());
  fail({ExitCode::kBadData, "corpus.no_tokens"}, "{}: found no document with a token{}; expected text{}",
       join_some(names), holds_out ? " beside those that are held out" : "",
       names.size() == 1 ? "" : " in at least one of them");
}

std::vector<std::string> unused_key_lines(const TokenizeOptions& options, const TokenizeReport& report) {
  std::vector<std::string> lines;
  for (std::size_t source = 0; source < report.unused.size(); ++source)
    if (!report.unused[source].empty())
      lines.push_back(
          fmt::format("{}: not used: {}", options.sources[source].string(), report.unused[source].text()));
  for (std::size_t source = 0; source < report.unused.size(); ++source) {
    const std::int64_t rows = report.unused[source].rows_with("rejected");
    if (rows > 0 && options.row.answers == Answers::kAuto)
      lines.push_back(
          fmt::format("{}: the chosen answer of {} is learnt, and not the rejected one; `sluice tokenize "
                      "--answer rejected`, or data.answer, learns that one, and --pairs keeps both",
                      options.sources[source].string(), counted(rows, "row")));
  }
  return lines;
}

std::vector<std::string> pair_warnings(const TokenizeReport& report) {
  std::vector<std::string> warnings;
  if (report.equal_answers.count > 0)
    warnings.push_back(fmt::format("{} left out, because both answers are the same:{}",
                                   counted(report.equal_answers.count, "pair"),
                                   lines_of_some(report.equal_answers.places, kMostListed)));
  if (report.uneven_ends.count > 0)
    warnings.push_back(fmt::format(
        "{}: one answer ends with an end token and the other does not, so that the end is preferred and not "
        "the answer:{}",
        counted(report.uneven_ends.count, "pair"), lines_of_some(report.uneven_ends.places, kMostListed)));
  return warnings;
}

TokenizeReport tokenize(const TokenizeOptions& options) { return Tokenization(options).run(); }

}  // namespace sluice::corpus
