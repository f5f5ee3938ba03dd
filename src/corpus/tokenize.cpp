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
#include <memory>
#include <optional>
#include <span>
#include <utility>

namespace sluice::corpus {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostListed = 20;

/// What a run of the command knows and writes.
class Tokenization {
 public:
  explicit Tokenization(const TokenizeOptions& options)
      : options_(options),
        tokenizer_(text::Tokenizer::load(options.model)),
        reader_(options.sources, options.format, options.documents, tokenizer_),
        frame_(frame_of(options, tokenizer_)) {
    encoding_.line = options.line;
    encoding_.loss = options.loss;
    encoding_.wants_mask = std::ranges::any_of(
        options.sources, [&](const fs::path& path) { return begins_with_conversation(path); });
    encoding_.chat_template = read_chat_template(options.model, options.chat_template);
    report_.cuts = find_cuts();
    reader_.cut_texts(report_.cuts);
  }

  [[nodiscard]] TokenizeReport run() {
    OrderedWork<Batch, Encoded> work([this] { return reader_.next(); }, [this] { return turner(); },
                                     static_cast<std::size_t>(options_.threads));
    while (std::optional<Encoded> batch = work.take()) {
      if (is_stopped()) return report_;
      for (const EncodedPiece& piece : batch->pieces) take(piece);
      options_.progress(batch->bytes_read, reader_.total_bytes());
      if (options_.bad_lines == BadLines::kError &&
          report_.bad_line_count >= static_cast<std::int64_t>(kMostListed))
        break;
    }
    finish();
    return report_;
  }

 private:
  struct Encoded {
    std::vector<EncodedPiece> pieces;
    std::int64_t bytes_read = 0;
  };

  static DocumentFrame frame_of(const TokenizeOptions& options, const text::Tokenizer& tokenizer) {
    DocumentFrame frame;
    frame.vocab_size = read_vocab_size(options.model);
    const bool splits = options.documents == Documents::kEndOfText;
    if (!options.adds_end_token && !splits) return frame;
    std::optional<text::TokenId> end;
    try {
      end = read_end_token(options.model, tokenizer, options.end_token);
    } catch (const Error&) {
      if (options.adds_end_token) throw;
    }
    if (options.adds_end_token) frame.end = end;
    if (splits) frame.separator = end;
    return frame;
  }

  /// Where the held-out end of each source begins that is a text of one document, if there are too few of these to choose from.
  [[nodiscard]] std::vector<std::int64_t> find_cuts() const {
    constexpr double kEnough = 10;
    std::vector<std::int64_t> cuts(options_.sources.size(), 0);
    if (options_.holdout_share == 0 || options_.documents == Documents::kBlank) return cuts;
    const auto is_text = [&](const fs::path& source) { return holds_text(source, options_.format); };
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

  /// Whether the first line of a file is a conversation. A mask is written then: a file is either with one or without.
  [[nodiscard]] bool begins_with_conversation(const fs::path& path) const {
    SourceReader reader({path}, options_.format, options_.documents, tokenizer_);
    const std::optional<Batch> first = reader.next();
    if (!first || !first->pieces.front().is_json) return false;
    try {
      return read_line(first->pieces.front().bytes, options_.line).conversation.has_value();
    } catch (const Error&) {
      return false;  // told in its turn
    }
  }

  /// What one thread does, with its own encoder.
  [[nodiscard]] OrderedWork<Batch, Encoded>::Turn turner() {
    auto encoder = std::make_shared<DocumentEncoder>(tokenizer_, encoding_);
    return [encoder](const Batch& batch) {
      Encoded out;
      for (const Piece& piece : batch.pieces) out.pieces.push_back(encoder->encode(piece));
      out.bytes_read = batch.bytes_read;
      return out;
    };
  }

  [[nodiscard]] bool is_stopped() {
    report_.is_stopped = options_.stops();
    return report_.is_stopped;
  }

  void take(const EncodedPiece& piece) {
    report_.repairs += piece.repairs;
    if (!piece.fault.empty()) {
      if (report_.bad_lines.size() < kMostListed)
        report_.bad_lines.push_back(
            fmt::format("{}:{}: {}", options_.sources[piece.source].string(), piece.line, piece.fault));
      ++report_.bad_line_count;
      return;
    }
    // With an error in sight nothing will be kept.
    if (report_.bad_line_count > 0 && options_.bad_lines == BadLines::kError) return;
    writer().write(piece, options_.sources[piece.source]);
  }

  DocumentWriter& writer() {
    if (writer_) return *writer_;
    report_.has_mask = encoding_.wants_mask;
    output_ = std::make_unique<StagedTokenFile>(options_.output, encoding_.wants_mask);
    if (options_.holdout_share > 0)
      holdout_ = std::make_unique<StagedTokenFile>(holdout_path(options_.output), encoding_.wants_mask);
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
    if (report_.tokens == 0)
      fail(ExitCode::kBadData, "the sources hold no document with a token{}",
           holdout_ ? " beside those that are held out" : "");
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

  [[noreturn]] void refuse_bad_lines() const {
    const auto more = report_.bad_line_count - std::ssize(report_.bad_lines);
    fail(ExitCode::kBadData, "{} bad line{}{}; --bad-lines skip leaves such lines out{}",
         report_.bad_line_count, report_.bad_line_count == 1 ? "" : "s",
         more > 0 || report_.bad_lines.size() == kMostListed ? " or more" : "",
         lines_of_some(report_.bad_lines, kMostListed));
  }

  /// Attributes: a file explains itself.
  void describe(StagedTokenFile& staged) {
    hdf5::File& file = staged.writer().finish();
    std::vector<std::string> sources;
    for (const fs::path& source : options_.sources) sources.push_back(source.string());
    file.set_attribute("/", "format_version", std::int64_t{1});
    file.set_attribute("/", "program", fmt::format("sluice {}", version()));
    file.set_attribute("/", "tokenizer", (options_.model / "tokenizer.json").string());
    file.set_attribute("/", "tokenizer_digest", tokenizer_.digest().hex());
    file.set_attribute("/", "vocab_size", frame_.vocab_size);
    file.set_attribute("/", "sources", fmt::format("{}", fmt::join(sources, "\n")));
    file.set_attribute("/", "source_bytes", reader_.total_bytes());
    file.set_attribute("/", "documents", staged.writer().document_count());
    file.set_attribute("/", "empty_documents", report_.empty_documents);
    file.set_attribute("/", "bad_lines", report_.bad_line_count);
    file.set_attribute("/", "repaired_characters", report_.repairs);
    if (frame_.end) file.set_attribute("/", "end_token", std::int64_t{*frame_.end});
    staged.writer().close();
  }

  const TokenizeOptions& options_;
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

TokenizeReport tokenize(const TokenizeOptions& options) { return Tokenization(options).run(); }

}  // namespace sluice::corpus
