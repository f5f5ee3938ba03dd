// Prompts: as a file or a command line gives them, and as a model takes them.
#pragma once

#include "corpus/conversation.hpp"
#include "model/model_config.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct Prompt {
  /// Id of the prompt as JSON: from its file, or else its number, from 0.
  std::string id;
  std::string text{};                                  ///< text of the prompt, if it has no tokens yet
  std::vector<std::int64_t> tokens{};                  ///< token ids of the prompt
  std::optional<corpus::Conversation> conversation{};  ///< conversation to continue, in place of a text
  std::vector<std::string> unused{};                   ///< keys of the prompt's row that were not used
  /// Place of the prompt in its file, "prompts.jsonl:3: "; "" for one of the command line.
  std::string place{};
};

/// Name of a prompt in messages: "prompts.jsonl:3: prompt 2".
[[nodiscard]] std::string name_of(const Prompt& prompt);

/// Parses token ids: "5,17,42". Error(kUsage).
[[nodiscard]] std::vector<std::int64_t> parse_token_ids(std::string_view text);

/// Reads a file of prompts, which may be a pipe. Rows of JSON, in the sense of corpus::form_of(), are objects
/// with "prompt" (a text), a conversation in a form of corpus::read_asked() or "tokens" (ids), and optionally
/// an "id"; any other line is a text. Error(kBadData) if the file cannot be read, or with the line of the
/// first row that is no prompt.
[[nodiscard]] std::vector<Prompt> read_prompts(const std::filesystem::path& file);

/// Text about unused keys: "not used: 'source' (12 rows)"; "" if there are none.
[[nodiscard]] std::string unused_keys_text(const std::vector<Prompt>& prompts);

/// Error(kBadData) for a prompt without tokens, with an id outside the vocabulary, or with at least
/// `positions` tokens, so that no answer can follow.
void require_answerable(const std::vector<Prompt>& prompts, const ModelConfig& model, std::int64_t positions);

/// Number of positions that a model has, at most `wanted`.
[[nodiscard]] std::int64_t usable_positions(const ModelConfig& model, std::int64_t wanted);

/// Tokens that end a text, from generation_config.json or else config.json in a model's directory; empty if
/// neither names any. Error(kBadData) for a file that is not JSON.
[[nodiscard]] std::vector<std::int64_t> read_end_tokens(const std::filesystem::path& directory);

}  // namespace sluice
