// The text of render_chat.py.
#pragma once

#include <string_view>

namespace sluice::corpus {

extern const std::string_view kRenderChat;

}  // namespace sluice::corpus
