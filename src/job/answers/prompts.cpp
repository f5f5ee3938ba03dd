#include "job/answers/prompts.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "corpus/json_row.hpp"
#include "corpus/model_tokens.hpp"
#include "corpus/source_reader.hpp"
#include "corpus/unused_keys.hpp"
#include "text/unicode/unicode.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <optional>

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// Largest file of prompts in bytes; it is read whole.
constexpr std::int64_t kMostPromptBytes = std::int64_t{1} << 30;

template <class Json>
bool is_id(const Json& value) {
  return value.is_number_integer();
}

/// Token ids in an array of integers.
template <class Json>
std::optional<std::vector<std::int64_t>> ids_in(const Json& value) {
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_id<Json>)) return std::nullopt;
  return value.template get<std::vector<std::int64_t>>();
}

/// A row of JSON as a prompt: token ids, a conversation, or a text.
Prompt prompt_of(const std::string& bytes, std::size_t number) {
  std::string text;
  text::append_repaired(text, bytes);
  corpus::JsonRow row(text);
  Prompt prompt{row.has("id") ? row.take("id").dump() : fmt::to_string(number)};
  const int given = static_cast<int>(row.has("tokens")) + static_cast<int>(row.has("prompt")) +
                    static_cast<int>(row.has("messages") || row.has("conversations")) +
                    static_cast<int>(row.has("instruction"));
  const auto ids = ids_in(row.take("tokens"));
  const bool is_chat = !ids && (prompt.conversation = corpus::read_asked(row)).has_value();
  if (given != 1 || (!ids && !is_chat && !row.has_text("prompt")))
    fail({ExitCode::kBadData, "job.prompts"},
         "expected one of \"prompt\", a text or messages, \"messages\", a conversation, and \"tokens\", an "
         "array of token ids");
  if (ids)
    prompt.tokens = *ids;
  else if (!is_chat)
    prompt.text = row.text("prompt");
  prompt.unused = row.unused();
  return prompt;
}

Prompt prompt_of(const corpus::DocumentPiece& piece, std::size_t number, const fs::path& file) {
  if (!piece.is_json)
    return {fmt::to_string(number), piece.bytes.substr(0, piece.bytes.find_last_not_of('\r') + 1)};
  const std::string place = corpus::place_text(file, piece.line, piece.row);
  if (!piece.fault.empty()) fail({ExitCode::kBadData, "job.prompts"}, "{}{}", place, piece.fault);
  try {
    return prompt_of(piece.bytes, number);
  } catch (const Error& error) {
    fail(error.cause(), "{}{}", place, error.what());
  }
}

}  // namespace

std::string name_of(const Prompt& prompt) { return fmt::format("{}prompt {}", prompt.place, prompt.id); }

std::vector<std::int64_t> parse_token_ids(std::string_view text) {
  std::vector<std::int64_t> ids;
  for (const char* at = text.data(); at <= text.data() + text.size(); ++at) {
    std::int64_t id = 0;
    const auto [end, error] = std::from_chars(at, text.data() + text.size(), id);
    if (error != std::errc() || id < 0 || (end != text.data() + text.size() && *end != ','))
      fail({ExitCode::kUsage, "job.prompts"}, "--prompt-tokens: found {}, expected token ids such as 5,17,42",
           printable(std::string(text)));
    ids.push_back(id);
    at = end;
  }
  return ids;
}

std::vector<Prompt> read_prompts(const fs::path& file) {
  corpus::SourceReader reader({file}, corpus::Format::kAuto, corpus::DocumentEnds::kLine, nullptr);
  std::vector<Prompt> prompts;
  while (const std::optional<corpus::PieceBatch> batch = reader.next()) {
    if (batch->bytes_read > kMostPromptBytes)
      fail({ExitCode::kBadData, "job.prompts"},
           "{} has more than the {} bytes that prompts may have together", file.string(), kMostPromptBytes);
    for (const corpus::DocumentPiece& piece : batch->pieces) {
      prompts.push_back(prompt_of(piece, prompts.size(), file));
      prompts.back().place = corpus::place_text(file, piece.line, piece.row);
    }
  }
  if (prompts.empty()) fail({ExitCode::kBadData, "job.prompts"}, "{}: found no prompt", file.string());
  return prompts;
}

std::string unused_keys_text(const std::vector<Prompt>& prompts) {
  corpus::UnusedKeys keys;
  for (const Prompt& prompt : prompts) keys.add(prompt.unused);
  return keys.empty() ? "" : "not used: " + keys.text();
}

void require_answerable(const std::vector<Prompt>& prompts, const ModelConfig& model,
                        std::int64_t positions) {
  for (const Prompt& prompt : prompts) {
    if (prompt.tokens.empty())
      fail({ExitCode::kBadData, "job.prompts"}, "{} has no tokens, expected at least one", name_of(prompt));
    const auto bad = std::ranges::find_if(prompt.tokens,
                                          [&](std::int64_t id) { return id < 0 || id >= model.vocab_size; });
    if (bad != prompt.tokens.end())
      fail({ExitCode::kBadData, "job.prompts"},
           "{} has the token id {}, but the model's vocabulary ends at {}", name_of(prompt), *bad,
           model.vocab_size - 1);
    if (std::ssize(prompt.tokens) >= positions)
      fail({ExitCode::kBadData, "job.prompts"},
           "{} has {} tokens, and a sequence at most {}, prompt and answer together: as many as "
           "generate.max_sequence_length says, and the model's max_position_embeddings ({})",
           name_of(prompt), prompt.tokens.size(), positions,
           model.max_positions > 0 ? fmt::to_string(model.max_positions) : "none");
  }
}

std::int64_t usable_positions(const ModelConfig& model, std::int64_t wanted) {
  return model.max_positions > 0 ? std::min(wanted, model.max_positions) : wanted;
}

std::vector<std::int64_t> read_end_tokens(const fs::path& directory) {
  const std::vector<std::int64_t> ends = corpus::read_end_ids(directory / "generation_config.json");
  return ends.empty() ? corpus::read_end_ids(directory / "config.json") : ends;
}

}  // namespace sluice
