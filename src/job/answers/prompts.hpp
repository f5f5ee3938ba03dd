// Prompts, as a file or a command line gives them, and as a model takes them.
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
  std::string id;                      ///< JSON: as its file names it, or else its number, from 0
  std::string text{};                  ///< text of the prompt, if it has no tokens yet
  std::vector<std::int64_t> tokens{};  ///< token ids of the prompt
  std::optional<corpus::Conversation> conversation{};  ///< conversation that is to go on, in place of a text
  std::vector<std::string> unused{};                   ///< keys of its row that nothing was made of
  std::string place{};  ///< "prompts.jsonl:3: ", where its file has it; of a command line ""
};

/// "prompts.jsonl:3: prompt 2", as messages call it.
[[nodiscard]] std::string name_of(const Prompt& prompt);

/// "5,17,42" as ids. Error(kUsage).
[[nodiscard]] std::vector<std::int64_t> parse_token_ids(std::string_view text);

/// The prompts of a file, which may be a pipe. Rows of JSON, as corpus::form_of() knows them, are objects
/// with "prompt" (a text), a conversation in a form of corpus::read_asked() or "tokens" (ids), and perhaps an
/// "id"; else a line is a text. Error(kBadData) if the file cannot be read, or with the line of the first row
/// that is no prompt.
[[nodiscard]] std::vector<Prompt> read_prompts(const std::filesystem::path& file);

/// "not used: 'source' (12 rows)": the keys that nothing was made of; "" if there are none.
[[nodiscard]] std::string unused_keys_text(const std::vector<Prompt>& prompts);

/// Error(kBadData) for a prompt without tokens, with an id that the vocabulary lacks, or with as many tokens
/// as `positions`, so that no answer can follow.
void require_answerable(const std::vector<Prompt>& prompts, const ModelConfig& model, std::int64_t positions);

/// Positions that a model has, of so many that are wanted.
[[nodiscard]] std::int64_t usable_positions(const ModelConfig& model, std::int64_t wanted);

/// The tokens that end a text, as generation_config.json or else config.json in a model's directory says;
/// none if neither does. Error(kBadData) for what is no JSON.
[[nodiscard]] std::vector<std::int64_t> read_end_tokens(const std::filesystem::path& directory);

}  // namespace sluice
