// tiktoken.model, the vocabulary of Kimi and Moonlight: a line for each token, its bytes in base64 and its
// rank.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::text {

inline constexpr std::string_view kTiktokenFile = "tiktoken.model";

/// Bytes of the tokens, by rank. Error(kBadData), calling the file `name`, for lines of another form, a rank
/// or bytes that are there twice, and ranks that are missing.
[[nodiscard]] std::vector<std::string> parse_tiktoken(std::string_view text, const std::string& name);

/// The rest of tokenizer.json for models of that format, which is the same for all: steps before and behind
/// the vocabulary, and no added tokens.
[[nodiscard]] std::string tiktoken_document();

/// How tiktoken's class of these models writes an id behind the vocabulary for which tokenizer_config.json
/// has no name.
[[nodiscard]] std::string reserved_token(std::int64_t id);
/// Number of reserved token ids that follow the vocabulary's ids.
inline constexpr int kReservedTokens = 256;

/// Error(kBadData) unless tokenizer_config.json in the directory names the class whose pattern is known.
void require_known_tiktoken(const std::filesystem::path& directory);

}  // namespace sluice::text
