// Messages of conversations, in all spellings that are supported.
#pragma once

#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>
#include <string_view>

namespace sluice::corpus {

/// Keys under which tables keep an assistant's reasoning.
inline constexpr std::array<std::string_view, 3> kReasoningKeys = {"reasoning_content", "thinking",
                                                                   "reasoning"};

/// Messages of a list of {"role", "content"} or ShareGPT's {"from", "value"}, or of a single one of these, or
/// of a text, which `role` says, without keys that are null. `key` names the value in errors. Error(kBadData)
/// for anything else.
[[nodiscard]] nlohmann::ordered_json messages_of(const nlohmann::ordered_json& value, std::string_view key,
                                                 std::string_view role);

/// Gives a message, the `index`th from 0, the one spelling that chat templates know: its parts of text
/// joined, its calls in "tool_calls", without marks of what is learnt. True if it is to be learnt: it has no
/// "train": false, "weight": 0 or "masked": true. Error(kBadData) if it is no message, or has parts that are
/// no text.
[[nodiscard]] bool tidy_message(nlohmann::ordered_json& message, std::size_t index);

}  // namespace sluice::corpus
