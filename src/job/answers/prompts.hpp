// Prompts, as a file or a command line gives them, and as a model takes them.
#pragma once

#include "model/model_config.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct Prompt {
  std::string id;                      ///< JSON: as its file names it, or else its number, from 0
  std::string text{};                  ///< if it has no tokens yet
  std::vector<std::int64_t> tokens{};  ///< ids
  std::string messages{};              ///< JSON: a conversation that is to go on, in place of a text
  std::string place{};                 ///< "prompts.jsonl:3", where its file has it; of a command line ""
};

/// "prompts.jsonl:3: prompt 2", as messages call it.
[[nodiscard]] std::string name_of(const Prompt& prompt);

/// "5,17,42" as ids. Error(kUsage).
[[nodiscard]] std::vector<std::int64_t> parse_token_ids(std::string_view text);

/// The prompts of a file. If its name ends on .jsonl a line is an object with "prompt" (a text), "messages" (a conversation) or
/// "tokens" (ids), and perhaps an "id"; else a line is a text. Error(kBadData) if it cannot be read, or with the line of the first that is no prompt.
[[nodiscard]] std::vector<Prompt> read_prompts(const std::filesystem::path& file);

/// Error(kBadData) for a prompt without tokens, with an id that the vocabulary lacks, or with as many tokens as `positions`, so
/// that no answer can follow.
void require_answerable(const std::vector<Prompt>& prompts, const ModelConfig& model, std::int64_t positions);

/// Positions that a model has, of so many that are wanted.
[[nodiscard]] std::int64_t usable_positions(const ModelConfig& model, std::int64_t wanted);

/// The tokens that end a text, as generation_config.json or else config.json in a model's directory says; none if neither does.
/// Error(kBadData) for what is no JSON.
[[nodiscard]] std::vector<std::int64_t> read_end_tokens(const std::filesystem::path& directory);

}  // namespace sluice
