// Lists that tables keep as a text, because all rows of a column have one type.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace sluice::corpus {

/// Whether a JSON list that is not empty is one of those that are looked for; `is_cut`: it is one object, of which
/// what comes behind may be missing.
using IsWantedList = bool (*)(const nlohmann::ordered_json& list, bool is_cut);

/// The list whose JSON text `text` is, if it is a wanted one; nothing for any other text, such as other JSON
/// or words in brackets. Error(kBadData), which names `place` ("'messages'"), for a wanted list in Python's
/// spelling, or one that is cut short: what it holds is certain as far as it goes.
[[nodiscard]] std::optional<nlohmann::ordered_json> list_in_text(const std::string& text,
                                                                 IsWantedList is_wanted,
                                                                 std::string_view place);

}  // namespace sluice::corpus
