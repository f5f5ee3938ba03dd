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

/// Converts to messages a list of {"role", "content"} or ShareGPT's {"from", "value"} objects, a single such
/// object, or a text by `role`; drops keys whose value is null. `key` names the value in errors.
/// Error(kBadData) for anything else.
[[nodiscard]] nlohmann::ordered_json messages_of(const nlohmann::ordered_json& value, std::string_view key,
                                                 std::string_view role);

/// Normalises message `index` (from 0) to the form that chat templates read: text parts joined, calls in
/// "tool_calls", marks of learning removed. Returns whether the message is learnt: it has none of "train":
/// false, "weight": 0 and "masked": true. Error(kBadData) if the value is no message, or has parts that are
/// no text.
[[nodiscard]] bool tidy_message(nlohmann::ordered_json& message, std::size_t index);

}  // namespace sluice::corpus
