// Tokens that the files beside tokenizer.json name.
#pragma once

#include "text/added_tokens.hpp"

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sluice::text {

/// A token in a file beside tokenizer.json.
struct NamedToken {
  AddedToken token;           ///< the token, without an id
  std::optional<TokenId> id;  ///< id in the file; nothing if it gives none
  std::string file;           ///< file that names it, for messages
};

/// Tokens of tokenizer_config.json (`added_tokens_decoder`, `extra_special_tokens`, `bos_token` and the
/// like), and, where that has no `added_tokens_decoder`, of special_tokens_map.json and added_tokens.json, in
/// the order in which transformers (5) adds them to `own`, those of tokenizer.json. Those that `own` has
/// alike are left out; one with other flags is not. None for files that are missing. Keys that are of no use
/// here are told in the log, one line a file. Error(kBadData) for a file that is broken.
[[nodiscard]] std::vector<NamedToken> read_named_tokens(const std::filesystem::path& directory,
                                                        const std::vector<AddedToken>& own);

/// Special tokens by the keys that name them, "eos_token" and the like, as transformers (5) knows them: from
/// tokenizer_config.json, and from special_tokens_map.json where read_named_tokens() reads it, whose keys
/// then count. Error(kBadData) for a file that is broken.
[[nodiscard]] std::map<std::string, NamedToken> read_special_tokens(const std::filesystem::path& directory);

/// Tokens with their flags as text, a line each.
[[nodiscard]] std::string to_text(const std::vector<NamedToken>& tokens);

/// Adds tokens to those of tokenizer.json as the tokenizers library does: a known one takes its new flags and
/// keeps its id; a new one has the id that `vocabulary_id(content)` says, or the next free one behind
/// `vocabulary_size` ids and all added ones. What is added or differs is told in the log.
void add_named_tokens(std::vector<AddedToken>& added, const std::vector<NamedToken>& named,
                      const std::function<std::optional<TokenId>(const std::string&)>& vocabulary_id,
                      TokenId vocabulary_size);

}  // namespace sluice::text
