// Facts about a model's tokens from the files beside tokenizer.json.
#pragma once

#include "corpus/chat_layout.hpp"
#include "text/tokenizer.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace sluice::corpus {

/// Size of the model's vocabulary: vocab_size of config.json. Error(kBadData) if there is none.
[[nodiscard]] std::int64_t read_vocab_size(const std::filesystem::path& directory);

/// Ids at eos_token_id of a file of the model, or of its part "text_config"; empty if the file is missing or
/// names none. Error(kBadData) if the file is broken.
[[nodiscard]] std::vector<std::int64_t> read_end_ids(const std::filesystem::path& file);

/// Token that ends a document: `wanted` if given, else eos_token of the tokenizer's files, see
/// text::read_special_tokens(), else eos_token_id of config.json (the first of a list). Error(kUsage) if
/// `wanted` is not a token, Error(kBadData) if no file names one.
[[nodiscard]] text::TokenId read_end_token(const std::filesystem::path& directory,
                                           const text::Tokenizer& tokenizer, const std::string& wanted);

/// Tokens that end an answer: all that eos_token_id of generation_config.json and of config.json, and the
/// eos_token of the tokenizer's files name, but for those of files that are broken.
[[nodiscard]] std::vector<text::TokenId> read_answer_ends(const std::filesystem::path& directory,
                                                          const text::Tokenizer& tokenizer);

/// chat_template.jinja and, of the templates in additional_chat_templates/, tool_use.jinja; where there is no
/// such file, chat_template of tokenizer_config.json, of several those named "default" and "tool_use". Texts
/// are empty where there is none. With the special tokens that text::read_special_tokens() finds. `file`, if it is
/// not empty, holds another template to take in place of the model's, for conversations with tools, too.
[[nodiscard]] ChatTemplate read_chat_template(const std::filesystem::path& directory,
                                              const std::filesystem::path& file = {});

}  // namespace sluice::corpus
