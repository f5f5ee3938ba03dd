// Messages of conversations, in all spellings that are supported.
#pragma once

#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::corpus {

/// Keys under which tables keep an assistant's reasoning.
inline constexpr std::array<std::string_view, 3> kReasoningKeys = {"reasoning_content", "thinking",
                                                                   "reasoning"};

/// The list of messages whose JSON a text is; nothing for any other text. `key` names the text in errors.
/// Errors as list_in_text().
[[nodiscard]] std::optional<nlohmann::ordered_json> messages_in_text(const std::string& text,
                                                                     std::string_view key);

/// Converts to messages a list of {"role", "content"} or ShareGPT's {"from", "value"} objects, such a list as
/// JSON text, a single such object, or any other text by `role`; drops keys whose value is null. `key` names
/// the value in errors. Error(kBadData) for anything else.
[[nodiscard]] nlohmann::ordered_json messages_of(const nlohmann::ordered_json& value, std::string_view key,
                                                 std::string_view role);

/// Normalises message `index` (from 0) to the form that chat templates read: text parts joined, calls in
/// "tool_calls", both also where they are kept as JSON text, marks of learning removed. Returns whether the message
/// is learnt: it has none of "train": false, "weight": 0 and "masked": true. Error(kBadData) if the value is no
/// message, or has parts that are no text.
[[nodiscard]] bool tidy_message(nlohmann::ordered_json& message, std::size_t index);

}  // namespace sluice::corpus
