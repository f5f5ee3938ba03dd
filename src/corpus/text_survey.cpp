#include "corpus/text_survey.hpp"

#include "base/error.hpp"
#include "corpus/document_encoder.hpp"
#include "corpus/source_reader.hpp"
#include "corpus/tokenize.hpp"

#include <cstdint>
#include <optional>

namespace sluice::corpus {

TextSurvey survey_text(const std::filesystem::path& text, const std::filesystem::path& model,
                       const text::Tokenizer& tokenizer, const RowOptions& row) {
  constexpr std::int64_t kFront_bytes = std::int64_t{1} << 20;
  TokenizeOptions options;
  options.model = model;
  options.row = row;
  const EncodingOptions encoding = encoding_options(options, tokenizer);
  DocumentEncoder encoder(tokenizer, encoding);
  SourceReader reader({text}, options.format, options.documents, &tokenizer);
  TextSurvey survey;
  bool has_tokens = false;
  for (std::int64_t bytes = 0; bytes < kFront_bytes || bytes >= reader.total_bytes();) {
    const std::optional<PieceBatch> batch = reader.next();
    survey.is_whole = !batch;
    if (!batch) break;
    bytes = batch->bytes_read;
    for (const DocumentPiece& piece : batch->pieces) {
      has_tokens = has_tokens || (!piece.is_json && !piece.bytes.empty());
      if (!piece.is_json) continue;
      const EncodedDocumentPiece encoded = encoder.encode(piece);
      if (!encoded.fault.empty())
        fail(ExitCode::kBadData, "{}{}", place_text(text, piece.line, piece.row), encoded.fault);
      has_tokens = has_tokens || !encoded.ids.empty();
      survey.answers += encoded.answers;
    }
  }
  if (survey.is_whole && !has_tokens) fail_without_tokens({text}, /*holds_out=*/false);
  return survey;
}

}  // namespace sluice::corpus
